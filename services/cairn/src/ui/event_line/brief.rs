//! A run in few lines, for logs: what began and ended, and one line for each call of a tool.

use super::pool::is_brief;
use super::words::{PIECE, result};
use super::{EventLine, Narrator, hooks, line, step_of};
use cairn_engine::decide::STATE_TOOLS;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_rpc::text::clip;

impl Narrator {
    /// The line of the next event, if it is one that everybody wants to see. What the model does
    /// to its own state (notes, parts of steps, session memory) is not, nor what a later line says
    /// as well.
    pub fn brief(&mut self, event: &wire::Event) -> Option<EventLine> {
        let line = self.line(event);
        match event.kind.as_ref()? {
            // Beside calls, a text says what they are for; alone it is all that there is.
            Kind::ReplyReceived(e) => e.calls.is_empty().then_some(line),
            Kind::CallFinished(e) => self.brief_call(e),
            Kind::AttemptPlaced(e) => is_brief(e.waited_ms).then_some(line),
            Kind::HooksAnswered(e) => hooks::is_brief(e).then_some(line),
            Kind::HooksAsked(_)
            | Kind::HooksPinned(_)
            | Kind::CallIntended(_)
            | Kind::CallHeld(_)
            | Kind::CallPreviewed(_)
            | Kind::CapabilityFound(_)
            | Kind::ContextChanged(_)
            | Kind::CompactionRequested(_)
            | Kind::SummaryAsked(_)
            | Kind::SubGoalAdded(_)
            | Kind::SubGoalFocused(_)
            | Kind::SubGoalCompleted(_)
            | Kind::SubGoalDropped(_)
            | Kind::ScratchpadWritten(_)
            | Kind::MemorySet(_)
            | Kind::MemoryRemoved(_)
            | Kind::MemoryCleared(_)
            | Kind::StoredApart(_)
            | Kind::AgentDefined(_) => None,
            _ => Some(line),
        }
    }

    /// The call as it was asked for, with what came of it.
    fn brief_call(&self, event: &wire::CallFinished) -> Option<EventLine> {
        let call = event.call.unwrap_or_default();
        let called = self.called(&call);
        let is_state = |name: &str| STATE_TOOLS.iter().any(|tool| tool.name == name);
        if called.is_some_and(|called| is_state(&called.name)) {
            return None;
        }
        let (mark, result) = result(event);
        let with = called.map_or_else(String::new, |called| {
            format!(" {}", clip(&called.arguments, PIECE / 2))
        });
        let (step, name) = (step_of(call.attempt.as_ref()), self.call(&call));
        Some(line(mark, format!("step {step}: {name}{with} {result}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: wire::AttemptRef = wire::AttemptRef {
        run: 1,
        step: 2,
        attempt: 1,
    };

    fn event(kind: Kind) -> wire::Event {
        wire::Event {
            at_unix_ms: 0,
            kind: Some(kind),
            ..Default::default()
        }
    }

    fn reply(text: &str, calls: &[&str]) -> wire::Event {
        let call = |name: &&str| wire::RequestedCall {
            call: Some(wire::ToolCall {
                id: "x".into(),
                name: (*name).into(),
                arguments_json: r#"{"path":"a"}"#.into(),
            }),
            ..Default::default()
        };
        event(Kind::ReplyReceived(wire::ReplyReceived {
            attempt: Some(AT),
            text: text.into(),
            calls: calls.iter().map(call).collect(),
            ..Default::default()
        }))
    }

    fn finished(index: u32, is_error: bool) -> wire::Event {
        event(Kind::CallFinished(wire::CallFinished {
            call: Some(wire::CallRef {
                attempt: Some(AT),
                tool_turn: 0,
                index,
            }),
            output: "one\ntwo".into(),
            is_error,
            ..Default::default()
        }))
    }

    #[test]
    fn a_tool_has_one_line_and_a_state_tool_none() {
        let mut narrator = Narrator::default();
        let mut reported = |event| narrator.brief(&event).map(|line| line.to_string());
        assert_eq!(
            reported(reply("I look.", &["read_file", "scratchpad", "send"])),
            None
        );
        let intended = wire::CallIntended {
            call: None,
            ..Default::default()
        };
        assert_eq!(reported(event(Kind::CallIntended(intended))), None);
        let notes = wire::ScratchpadWritten {
            attempt: Some(AT),
            text: "notes".into(),
            ..Default::default()
        };
        assert_eq!(reported(event(Kind::ScratchpadWritten(notes))), None);
        assert_eq!(
            reported(finished(0, false)).as_deref(),
            Some(r#"  step 2: read_file {"path":"a"} gave: one … 2 lines (0 ms)"#)
        );
        assert_eq!(reported(finished(1, false)), None);
        assert_eq!(
            reported(finished(2, true)).as_deref(),
            Some(r#"✗ step 2: send {"path":"a"} failed: one … 2 lines (0 ms)"#)
        );
    }

    #[test]
    fn an_answer_without_calls_is_reported() {
        let line = Narrator::default().brief(&reply("Thinking.", &[]));
        assert_eq!(line.unwrap().text, "step 2: Thinking.");
    }
}
