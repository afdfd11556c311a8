//! Lines about hooks: what they were asked, and what they answered.

use super::words::failure_text;
use super::{EventLine, Mark, Narrator, line};
use crate::ui::hooks::{changes, names, outcome, question, subject};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::event::{HookPoint, HookVerdict};

impl Narrator {
    pub(super) fn hook_line(&self, kind: &Kind) -> EventLine {
        match kind {
            Kind::HooksAsked(e) => {
                let text = format!(
                    "{}: hooks are asked at {}",
                    place(e.gate.as_ref()),
                    question(e)
                );
                line(Mark::Plain, text)
            }
            Kind::HooksAnswered(e) => self.answered_line(e),
            Kind::HooksChanged(e) => {
                let why = changes(&e.missing, &e.changed);
                line(Mark::Asks, format!("run {}: hook {why}", e.run))
            }
            Kind::HooksPinned(e) => {
                let hooks: Vec<String> = e.hooks.iter().map(|hook| hook.name.clone()).collect();
                let hooks = match hooks.as_slice() {
                    [] => "no hooks".to_owned(),
                    hooks => format!("the hooks {}", names(hooks)),
                };
                line(Mark::Plain, format!("run {} asks {hooks} now", e.run))
            }
            Kind::HooksDropped(_) => {
                let text = "the hooks of the place that it came from are not asked any more";
                line(Mark::Plain, text)
            }
            Kind::RunEnding(e) => {
                let why = failure_text(e.failure.as_ref());
                line(Mark::Bad, format!("run {} is to end: {why}", e.run))
            }
            _ => line(Mark::Plain, ""),
        }
    }

    fn answered_line(&self, event: &wire::HooksAnswered) -> EventLine {
        let gate = event.gate.unwrap_or_default();
        let outcomes = event.outcomes.iter().filter_map(|given| {
            let subject = match gate.point() {
                HookPoint::PreToolCall | HookPoint::PostToolCall => {
                    self.call(&call_of(&gate, given))
                }
                _ => subject(Some(&gate)).to_owned(),
            };
            outcome(given, &subject)
        });
        let outcomes: Vec<_> = outcomes.collect();
        let place = place(Some(&gate));
        if outcomes.is_empty() {
            let point = subject(Some(&gate));
            return line(Mark::Plain, format!("{place}: hooks proceed at {point}"));
        }
        line(mark(event), format!("{place}: {}", outcomes.join("; ")))
    }
}

/// The call that an outcome is about.
fn call_of(gate: &wire::HookGate, outcome: &wire::HookOutcome) -> wire::CallRef {
    wire::CallRef {
        attempt: gate.attempt,
        tool_turn: gate.turn,
        index: match gate.point() {
            HookPoint::PostToolCall => gate.index,
            _ => outcome.index,
        },
    }
}

/// `step 2`, or `run 1`.
fn place(gate: Option<&wire::HookGate>) -> String {
    let at = gate.and_then(|gate| gate.attempt).unwrap_or_default();
    match at.step {
        0 => format!("run {}", at.run),
        step => format!("step {step}"),
    }
}

fn mark(event: &wire::HooksAnswered) -> Mark {
    let has = |verdict| {
        let mut outcomes = event.outcomes.iter();
        outcomes.any(|outcome| outcome.verdict() == verdict)
    };
    if has(HookVerdict::Block) {
        return Mark::Bad;
    }
    match has(HookVerdict::RequireApproval) {
        true => Mark::Asks,
        false => Mark::Plain,
    }
}

/// Whether the line says more than that nothing came of the question.
pub(super) fn is_brief(event: &wire::HooksAnswered) -> bool {
    let mut outcomes = event.outcomes.iter();
    outcomes.any(|given| outcome(given, "").is_some())
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
            kind: Some(kind),
            ..wire::Event::default()
        }
    }

    fn outcome(index: u32, verdict: HookVerdict, hook: &str, text: &str) -> wire::HookOutcome {
        wire::HookOutcome {
            index,
            verdict: verdict.into(),
            hook: hook.to_owned(),
            text: text.to_owned(),
            ..wire::HookOutcome::default()
        }
    }

    fn answered(point: HookPoint, at: wire::AttemptRef, of: &[wire::HookOutcome]) -> wire::Event {
        event(Kind::HooksAnswered(wire::HooksAnswered {
            gate: Some(wire::HookGate {
                point: point.into(),
                attempt: Some(at),
                turn: 3,
                index: 0,
            }),
            outcomes: of.to_vec(),
        }))
    }

    fn reply(names: &[&str]) -> wire::Event {
        let call = |name: &&str| wire::RequestedCall {
            call: Some(wire::ToolCall {
                name: (*name).to_owned(),
                ..wire::ToolCall::default()
            }),
            ..wire::RequestedCall::default()
        };
        event(Kind::ReplyReceived(wire::ReplyReceived {
            attempt: Some(AT),
            tool_turn: 3,
            calls: names.iter().map(call).collect(),
            ..wire::ReplyReceived::default()
        }))
    }

    #[test]
    fn an_answer_names_the_hook_and_the_call() {
        let mut narrator = Narrator::default();
        narrator.line(&reply(&["read_file", "shell_exec"]));
        let proceeds = outcome(0, HookVerdict::Proceed, "", "");
        let blocks = outcome(1, HookVerdict::Block, "guard", "no force pushes");
        let both = answered(HookPoint::PreToolCall, AT, &[proceeds.clone(), blocks]);
        let expected = "✗ step 2: hook guard blocked shell_exec: no force pushes";
        assert_eq!(narrator.line(&both).to_string(), expected);
        assert_eq!(narrator.brief(&both).unwrap().to_string(), expected);

        let nothing = answered(HookPoint::PreToolCall, AT, &[proceeds]);
        let expected = "  step 2: hooks proceed at PreToolCall";
        assert_eq!(narrator.line(&nothing).to_string(), expected);
        assert_eq!(narrator.brief(&nothing), None);

        let asks = outcome(0, HookVerdict::RequireApproval, "guard", "look first");
        let run = wire::AttemptRef {
            run: 1,
            ..wire::AttemptRef::default()
        };
        let asks = answered(HookPoint::OnRunStart, run, &[asks]);
        let expected = "? run 1: hook guard requires an approval of OnRunStart: look first";
        assert_eq!(narrator.line(&asks).to_string(), expected);
    }

    #[test]
    fn changed_hooks_ask_a_person() {
        let changed = event(Kind::HooksChanged(wire::HooksChanged {
            run: 1,
            missing: vec!["guard".to_owned()],
            changed: Vec::new(),
        }));
        let line = Narrator::default().brief(&changed).unwrap();
        let expected = "? run 1: hook guard is not configured any more";
        assert_eq!(line.to_string(), expected);
    }
}
