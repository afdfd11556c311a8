//! The events by which a call waits for a person, or is judged anew.

use super::{Apply, Ask, CallStatus, Envelope, Session};
use crate::event::{ApprovalRequested, CallRef, CallRejudged, InputRequested, QuestionAsked};
use crate::transitions::{Applied, CallPhase};

impl Session {
    fn ask(&mut self, name: CallRef, ask: Ask, at: u64) -> Applied {
        let call = self.call_mut(name)?;
        // What was approved is not asked about again, unless it is another call by now.
        if let Ask::Approval { digest } = &ask
            && call.approval.as_ref() == Some(digest)
        {
            return Err(call.refuse(CallPhase::Asking));
        }
        call.asks += 1;
        call.enter(CallStatus::Asking { ask, answer: None })?;
        call.asked_at = at;
        Ok(())
    }
}

impl Apply for ApprovalRequested {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let digest = self.digest.clone();
        session.ask(self.call, Ask::Approval { digest }, envelope.at)
    }
}

impl Apply for QuestionAsked {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let (question, choices) = (self.question.clone(), self.choices.clone());
        let ask = Ask::Question { question, choices };
        session.ask(self.call, ask, envelope.at)
    }
}

impl Apply for CallRejudged {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let call = session.call_mut(self.call)?;
        match call.status.phase() {
            CallPhase::Requested => {}
            CallPhase::Intended => call.enter(CallStatus::Requested)?,
            _ => return Err(call.refuse("judged anew")),
        }
        call.tool_digest.clone_from(&self.tool_digest);
        call.effect = self.effect;
        call.resolved.clone_from(&self.resolved);
        call.approval = None;
        call.renewals += 1;
        Ok(())
    }
}

impl Apply for InputRequested {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let question = self.question.clone();
        session.ask(self.call, Ask::Input { question }, envelope.at)
    }
}
