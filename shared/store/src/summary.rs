//! A conversation's summary, written under its lease.

use toshi_core::{ApprovalId, ConversationRow, Lease, SummaryRow};

use crate::School;
use crate::approval::ids;
use crate::item::{CommitError, Expression, Guard, Transaction, n, to_item};
use crate::step::{StepRefusal, refusal};

impl School<'_> {
    /// Puts a summary that covers more than the stored one, and takes `settled` off the calls of
    /// unknown outcome. `false`: the stored one covers as much.
    pub async fn put_summary(
        &self,
        meta: &ConversationRow,
        lease: &Lease,
        summary: &SummaryRow,
        settled: &[ApprovalId],
    ) -> Result<bool, StepRefusal> {
        let mut transaction = Transaction::new(self.store);
        let ours = Expression::equals("fence", n(lease.fence));
        let key = self.keys().meta(&meta.conversation);
        if settled.is_empty() {
            transaction.check(Guard::Conversation, &key, ours)?;
        } else {
            let values = vec![(":ids", ids(settled))];
            let update =
                Expression::raw("DELETE #unknown :ids", &[("#unknown", "unknown")], values);
            transaction.update(Guard::Conversation, &key, update, Some(ours))?;
        }
        // One that no longer holds covers messages that were replaced since: it may cover more.
        let more = Expression::raw(
            "attribute_not_exists(PK) OR upto < :upto OR #next < :next",
            &[("#next", "next")],
            vec![(":upto", n(summary.upto)), (":next", n(summary.next))],
        );
        let item = to_item(&self.keys().summary(&meta.conversation), summary)?;
        transaction.put(Guard::Row, item, Some(more))?;
        match transaction.commit().await {
            Ok(()) => Ok(true),
            Err(CommitError::Refused(guards)) if guards == [Guard::Row] => Ok(false),
            Err(error) => Err(refusal(error)),
        }
    }
}
