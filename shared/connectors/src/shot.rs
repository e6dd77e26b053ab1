//! One request through the seam: the right to send it once, and what was seen of it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;
use toshi_core::{Access, Canonical, Sha256Hex, WireFault};
use toshi_store::Permit;

use crate::headers::Repeated;

/// A fault, and whether the server asked for another token (401 with `WWW-Authenticate`).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) wire: WireFault,
    pub(crate) challenged: bool,
}

impl From<WireFault> for Fault {
    fn from(wire: WireFault) -> Self {
        Self {
            wire,
            challenged: false,
        }
    }
}

/// What exactly one `tools/call` may carry.
pub(crate) struct Armed {
    pub(crate) tool: String,
    pub(crate) arguments: Sha256Hex,
    /// Those of the arguments that the tool wants repeated as headers.
    pub(crate) repeated: Vec<Repeated>,
    pub(crate) lease: Lease,
}

/// What must still hold in the moment of sending.
pub(crate) enum Lease {
    /// A read changes nothing: nothing must hold.
    None,
    /// The claim's lease must cover the whole call.
    Of(Box<Permit>),
    #[cfg(test)]
    Fixed(bool),
}

impl Armed {
    /// Arms what the permit allows, and consumes it.
    pub(crate) fn with(permit: Permit, repeated: Vec<Repeated>) -> Self {
        let tool = permit.tool().to_owned();
        let arguments = permit.arguments().clone();
        let lease = match permit.access() {
            Access::Read => Lease::None,
            Access::Write => Lease::Of(Box::new(permit)),
        };
        Self {
            tool,
            arguments,
            repeated,
            lease,
        }
    }

    /// Why this message may not be sent. `message` was read from the very bytes that would be.
    fn objection(&self, message: &Value) -> Option<&'static str> {
        let Some(params) = message.get("params").and_then(Value::as_object) else {
            return Some("the call has no parameters");
        };
        if params.get("name").and_then(Value::as_str) != Some(self.tool.as_str()) {
            return Some("the call names another tool than was permitted");
        }
        // Besides the seam's own `_meta`, nothing rides along that nobody approved.
        if params
            .keys()
            .any(|key| !["name", "arguments", "_meta"].contains(&key.as_str()))
        {
            return Some("the call carries more than was permitted");
        }
        let hash = params
            .get("arguments")
            .and_then(|arguments| Canonical::of(arguments).ok())
            .map(|canonical| canonical.hash().clone());
        if hash.as_ref() != Some(&self.arguments) {
            return Some("the arguments differ from the permitted ones");
        }
        let in_time = match &self.lease {
            Lease::None => true,
            Lease::Of(permit) => permit.may_still_send(),
            #[cfg(test)]
            Lease::Fixed(in_time) => *in_time,
        };
        (!in_time).then_some("too little time was left to make the call safely")
    }
}

/// Why a message does not leave.
pub(crate) enum Refusal {
    /// It is not what was permitted, and nothing was sent.
    Never(&'static str),
    /// It, or another copy of it, left before: what was seen of that one stands.
    Spent,
}

/// Travels inside the request, through `rmcp`, to the seam: so any number of calls may be under way
/// on one session, and each is tied to its own permit. A copy is the same shot.
#[derive(Clone)]
pub(crate) struct Shot(Arc<Inner>);

struct Inner {
    repeated: Vec<Repeated>,
    state: Mutex<State>,
    settled: Notify,
}

enum State {
    /// Nothing has reached the seam. `None` is a question, which changes nothing.
    Waiting(Option<Armed>),
    /// Handed to the HTTP client: bytes may have left.
    Sent,
    Settled(Result<Value, Fault>),
}

impl fmt::Debug for Shot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shot")
    }
}

impl Shot {
    fn new(armed: Option<Armed>, repeated: Vec<Repeated>) -> Self {
        Self(Arc::new(Inner {
            repeated,
            state: Mutex::new(State::Waiting(armed)),
            settled: Notify::new(),
        }))
    }

    /// For one `tools/call`.
    pub(crate) fn call(mut armed: Armed) -> Self {
        let repeated = std::mem::take(&mut armed.repeated);
        Self::new(Some(armed), repeated)
    }

    /// For one request that is no call.
    pub(crate) fn question() -> Self {
        Self::new(None, Vec::new())
    }

    /// The arguments that the request repeats as headers.
    pub(crate) fn repeated(&self) -> &[Repeated] {
        &self.0.repeated
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Spends the shot on this message, immediately before it is sent.
    pub(crate) fn spend(&self, message: &Value, is_call: bool) -> Result<(), Refusal> {
        let mut state = self.state();
        let objection = match &*state {
            State::Waiting(Some(armed)) if is_call => armed.objection(message),
            State::Waiting(None) if !is_call => None,
            State::Waiting(_) => Some("the request is not of the permitted kind"),
            State::Sent | State::Settled(_) => return Err(Refusal::Spent),
        };
        match objection {
            None => {
                *state = State::Sent;
                Ok(())
            }
            Some(why) => Err(Refusal::Never(why)),
        }
    }

    /// Records what came back. The first word stands.
    pub(crate) fn settle(&self, seen: Result<Value, Fault>) {
        let mut state = self.state();
        if !matches!(&*state, State::Settled(_)) {
            *state = State::Settled(seen);
            drop(state);
            self.0.settled.notify_waiters();
        }
    }

    /// Waits until something is known.
    pub(crate) async fn settled(&self) {
        loop {
            let mut news = std::pin::pin!(self.0.settled.notified());
            // Registered before the look, so that no news falls between.
            news.as_mut().enable();
            if matches!(&*self.state(), State::Settled(_)) {
                return;
            }
            news.await;
        }
    }

    /// Ends the waiting: from here on nothing can be sent. `after_sending` is what it means if bytes
    /// may have left and nothing came back.
    pub(crate) fn close(&self, after_sending: WireFault) -> Result<Value, Fault> {
        let mut state = self.state();
        let verdict = match &*state {
            State::Settled(seen) => return seen.clone(),
            State::Waiting(_) => {
                WireFault::NotSent("the call did not reach the network".to_owned())
            }
            State::Sent => after_sending,
        };
        let seen = Err(Fault::from(verdict));
        *state = State::Settled(seen.clone());
        drop(state);
        self.0.settled.notify_waiters();
        seen
    }
}

/// Closes the shot when the caller goes away, which stops a send that is still under way.
pub(crate) struct CloseOnDrop<'a>(pub(crate) &'a Shot);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        let _ = self.0.close(WireFault::Cut);
    }
}
