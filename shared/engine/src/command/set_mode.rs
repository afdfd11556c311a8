//! Gives a session another mode.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use super::Handle;
use crate::decide::{Decision, Rejection};
use crate::session::{Apply, Envelope, Mode, Session};
use crate::transitions::Applied;
use serde::{Deserialize, Serialize};

/// Give the session another mode.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetMode {
    pub mode: Mode,
}

/// The session has this mode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModeSet {
    pub mode: Mode,
}

impl Handle for SetMode {
    const BEGINS_WORK: bool = false;

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        decision.answer(ModeSet { mode: self.mode })?;
        Ok(decision.tell_mode()?)
    }
}

impl Apply for ModeSet {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.mode = self.mode;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::Sent;
    use crate::conversation::{LayerKind, Op};
    use crate::event::EventKind;

    fn mode(mode: Mode) -> SetMode {
        SetMode { mode }
    }

    /// How often models were told of a mode.
    fn told(events: &[EventKind]) -> usize {
        let ops = events.iter().flat_map(|event| match event {
            EventKind::ContextChanged(changed) => changed.ops.as_slice(),
            _ => &[],
        });
        let is_of_mode =
            |op: &&Op| matches!(op, Op::Remind(it) if it.of.kind() == LayerKind::Mode);
        ops.filter(is_of_mode).count()
    }

    #[test]
    fn the_models_at_work_are_told_of_the_mode_plan_and_of_its_end() {
        let mut sent = Sent::running(&["one"]);
        assert_eq!(told(&sent.send(mode(Mode::AcceptEdits))), 0);
        assert_eq!(sent.session.mode, Mode::AcceptEdits);
        assert_eq!(told(&sent.send(mode(Mode::Plan))), 1);
        assert_eq!(told(&sent.send(mode(Mode::Plan))), 0, "they know");
        assert_eq!(told(&sent.send(mode(Mode::AcceptEdits))), 1);
        assert_eq!(told(&sent.send(mode(Mode::Ask))), 0);
        assert_eq!(sent.session.mode, Mode::Ask);
    }

    #[test]
    fn a_session_without_work_takes_a_mode() {
        let mut sent = Sent::new();
        let events = sent.send(mode(Mode::Plan));
        assert!(matches!(&events[..], [EventKind::ModeSet(_)]), "{events:?}");
    }
}
