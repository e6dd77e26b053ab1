//! Every guard of the protocol, named once, so that a mutant can switch it off.

/// One guard. Its comment says which code it mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// `store::approval::transition_parts`, condition on `seq` and `state`.
    RowAsRead,
    /// The same for the transaction of `store::approval::claim`.
    ClaimRowAsRead,
    /// `store::item::Transaction::put_audit`: no record has this number yet.
    RecordIsNew,
    /// `store::approval::check_unknown`, called by `check_claim`.
    NoUnknownAtClaim,
    /// The same, called by `ask_parts`.
    NoUnknownAtAsk,
    /// `core`, `Approval::settle`: the attempt on record.
    SettleOwnAttempt,
    /// `store::approval::own_attempt`, asked when a claim's reply is lost.
    LookUpOwnAttempt,
    /// `store::conversation::take`, condition `free` and `fence`.
    TakeIfFree,
    /// `core`, `ConversationRow::taken`: the fence grows.
    TakeCounts,
    /// `store::conversation::start`, condition `free`, `fence` and `next`.
    StartIfFree,
    /// `store::step::try_commit`, condition on `fence`.
    CommitFenced,
    /// `store::conversation::release` and `store::step::try_commit`, condition on `wake`.
    ReleaseIfSeen,
    /// `agent::run::Run::commit`: lets go only if there is no other work.
    ReleaseIfAlone,
    /// `agent::run::Run::work`: `wake` is read before the rows.
    WakeBeforeRows,
    /// `core`, `next_work`: what ran out comes before calls, a lapsed claim too.
    LapsedFirst,
    /// `store::approval::wake_part`, called for `Effect::Wake` of a settle.
    SettleWakes,
    /// `store::approval::wake_part`: a bump also makes the conversation due.
    WakeIsDue,
    /// `core`, `Approval::decide`: before `decide_by`.
    DecideInTime,
    /// `core`, `Approval::claim`: before `run_by`.
    ClaimInTime,
    /// `core`, `Approval::abandon`: a lapsed claim is unknown, and not approved again.
    AbandonIsUnknown,
    /// `agent::execute::attempt`: the claim is committed before the call.
    ClaimBeforeSend,
    /// `store::permit::may_still_send`, asked in `connectors::shot`.
    SendWithinLease,
    /// `store::approval::send_again`: the second attempt is recorded first.
    RecordBeforeAgain,
    /// `agent::execute::record`: a lost reply is settled, and never sent again.
    NeverAgain,
}
