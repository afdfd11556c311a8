//! The calls with side effects that run, for a person who stops the command.

use crate::attach::GRACE;
use crate::ui::event_line::Narrator;
use cairn_proto::event::event::Kind;
use cairn_proto::event::{CallRef, Event};

/// The calls that were sent and have not ended.
#[derive(Debug, Default)]
pub(super) struct Underway {
    narrator: Narrator,
    calls: Vec<CallRef>,
}

impl Underway {
    /// Takes the next event.
    pub(super) fn take(&mut self, event: &Event) {
        // It learns the names of calls.
        self.narrator.line(event);
        let (call, is_sent) = match &event.kind {
            Some(Kind::CallIntended(e)) => (e.call, true),
            Some(Kind::CallHeld(e)) => (e.call, false),
            Some(Kind::CallFinished(e)) => (e.call, false),
            Some(Kind::CallInDoubt(e)) => (e.call, false),
            Some(Kind::CallRejudged(e)) => (e.call, false),
            Some(Kind::InputRequested(e)) => (e.call, false),
            _ => return,
        };
        let call = call.unwrap_or_default();
        self.calls.retain(|it| *it != call);
        if is_sent {
            self.calls.push(call);
        }
    }

    /// What a person should know who stops the command, if there is anything.
    pub(super) fn to_line(&self) -> Option<String> {
        let name = |call: &CallRef| {
            let step = call.attempt.unwrap_or_default().step;
            format!("{} of step {step}", self.narrator.called_name(call))
        };
        let names: Vec<String> = self.calls.iter().map(name).collect();
        (!names.is_empty()).then(|| {
            format!(
                "letting {} end, for at most {} s; a call that takes longer is left, and its outcome is \
                 unknown until it is looked at: cairn pending",
                names.join(", "),
                GRACE.as_secs()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::{AttemptRef, CallFinished, CallIntended};

    #[test]
    fn calls_that_were_sent_and_have_not_ended_are_named() {
        let call = |index: u32| CallRef {
            attempt: Some(AttemptRef {
                run: 1,
                step: 2,
                attempt: 1,
            }),
            tool_turn: 0,
            index,
        };
        let event = |kind: Kind| Event {
            kind: Some(kind),
            ..Event::default()
        };
        let intended = |index| {
            event(Kind::CallIntended(CallIntended {
                call: Some(call(index)),
                ..CallIntended::default()
            }))
        };
        let mut underway = Underway::default();
        assert_eq!(underway.to_line(), None);
        underway.take(&intended(0));
        underway.take(&intended(1));
        underway.take(&event(Kind::CallFinished(CallFinished {
            call: Some(call(0)),
            ..CallFinished::default()
        })));
        let line = underway.to_line().unwrap();
        assert!(
            line.starts_with("letting call 0.1 of step 2 end, for at most 10 s"),
            "{line}"
        );
    }
}
