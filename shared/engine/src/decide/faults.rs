//! Faults in the middle of decisions.
//!
//! Every decision that a test of a command makes is made once more for each of its events, with a
//! fault after that event.

use super::{Decision, Facts, Input};
use crate::session::Session;
use crate::transitions::{Applied, IllegalTransition};

impl Decision<'_> {
    pub(super) fn fail_if_due(&self) -> Applied {
        match self.fails_after {
            Some(events) if events == self.events.len() => {
                Err(IllegalTransition::missing("what a test takes away"))
            }
            _ => Ok(()),
        }
    }
}

/// Makes a decision of so many events again, with a fault after each: it fails, and leaves nothing.
pub(crate) fn check(before: &Session, input: &Input, facts: &Facts<'_>, events: usize) {
    for fails_after in 1..=events {
        let mut session = before.clone();
        let mut decision = Decision::new(&mut session, *facts);
        decision.fails_after = Some(fails_after);
        let decided = decision.decide(input.clone());
        assert!(decided.is_err(), "event {fails_after} of {input:?}");
        assert!(
            session == Session::default(),
            "event {fails_after} of {input:?}"
        );
    }
}

mod tests {
    use crate::command::testing::{Sent, plan};
    use crate::command::{
        CancelRun, ChangeContext, Command, CompactContext, ContextOp, Decide, PauseRun, SetMode,
        Settlement, StartRun, SubmitTurn, WhenBusy, examples,
    };
    use crate::decide::{
        Answer, Fork, FullRequest, Input, Previewed, Reply, STATE_TOOLS, Summarised, ToolFacts,
        is_answered_by_owner,
    };
    use crate::event::{
        AttemptRef, Blob, CallPreview, CallRef, Effect, EventKind, MemorySet, ResultHandle,
    };
    use crate::failure::{Failure, FailureKind};
    use crate::hooks::{Gate, Outcome, PinnedHook, Point, PresentHook, PresentHooks, Verdict};
    use crate::message::{FinishReason, Message, ToolCall, Usage};
    use crate::pending::pending;
    use crate::pool::Missing;
    use crate::session::{Mode, Session};
    use std::collections::BTreeMap;

    fn running() -> Sent {
        Sent::running(&["one", "two"])
    }

    fn after(mut sent: Sent, command: impl Into<Command>) -> Sent {
        sent.send(command);
        sent
    }

    fn attempt(sent: &Sent) -> AttemptRef {
        let mut running = sent.run().running_attempts();
        let (attempt, ..) = running.next().expect("a step at work");
        attempt
    }

    /// The model of the first step calls these tools, each with its arguments.
    fn calls(sent: &Sent, tools: &[(&str, &str)]) -> Input {
        let calls = tools.iter().map(|(name, arguments)| ToolCall {
            id: "id".to_owned(),
            name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
        });
        Input::Report {
            attempt: attempt(sent),
            results: Vec::new(),
            unfinished: Vec::new(),
            reply: Some(Reply {
                tool_turn: 0,
                text: "I call.".to_owned(),
                calls: calls.collect(),
                opaque: Vec::new(),
                finish: FinishReason::ToolCalls,
                usage: Usage::default(),
                provider: "test".to_owned(),
                model: "test".to_owned(),
                duration_ms: 1,
                ops_through: 0,
                estimated_tokens: 0,
                window_tokens: 0,
            }),
            failure: None,
            full: None,
            summary: None,
            retry: None,
        }
    }

    /// The model of the first step wants to pay.
    fn wants_to_pay() -> (Sent, Input) {
        let mut sent = running();
        let pay = ToolFacts {
            time_limit_ms: 10,
            ..ToolFacts::default()
        };
        sent.tools.insert("pay".to_owned(), pay);
        let report = calls(&sent, &[("pay", "{}")]);
        (sent, report)
    }

    /// The answer to the question that the session asks.
    fn answer(sent: &Sent, settlement: Settlement) -> Decide {
        let open = pending(&sent.session);
        Decide {
            pending_id: open.first().expect("a question").id().to_string(),
            settlement,
        }
    }

    /// The call that pays may be under way, and further ones need no approval.
    fn pays() -> Sent {
        let (mut sent, report) = wants_to_pay();
        sent.decide(report);
        let always = Settlement::ApproveAlways {
            when: Vec::new(),
            scope: String::new(),
        };
        let always = answer(&sent, always);
        after(sent, always)
    }

    /// A decision about a call in doubt, which takes effect later.
    fn decided() -> Sent {
        let mut sent = pays();
        let attempt = attempt(&sent);
        sent.decide(Input::AttemptLost { attempt });
        let retry = answer(&sent, Settlement::Retry);
        sent = after(sent, retry);
        sent.now = 1_000;
        sent
    }

    #[test]
    fn a_command_is_answered_as_a_whole_or_not_at_all() {
        for (mut sent, command) in examples() {
            let events = sent.send(command);
            let refused = |event: &EventKind| matches!(event, EventKind::CommandRefused(_));
            assert!(!events.iter().any(refused), "{events:?}");
        }
    }

    /// Arguments with which each state tool does what it can.
    fn arguments(tool: &str) -> &'static str {
        match tool {
            "ask_person" => r#"{"question": "Which one?"}"#,
            "compact" => r#"{"keep_in_mind": "the port"}"#,
            "read_progress" | "report_generator" | "session_memory_list" => "{}",
            "scratchpad" => r#"{"text": "a note"}"#,
            "search_tools" => r#"{"query": "weather"}"#,
            "session_memory_get" | "session_memory_remove" => r#"{"key": "key"}"#,
            "session_memory_set" => r#"{"key": "key", "value": "value"}"#,
            "step" => r#"{"plan": ["a", "b"], "focus": "a"}"#,
            other => panic!("arguments of {other}"),
        }
    }

    #[test]
    fn a_state_tool_is_answered_as_a_whole_or_not_at_all() {
        let mut sent = running();
        let weather = ToolFacts {
            deferred: Some(("Tells the weather.".to_owned(), "{}".to_owned())),
            ..ToolFacts::default()
        };
        sent.tools.insert("weather".to_owned(), weather);
        // The owner answers the others later.
        let at_once = STATE_TOOLS
            .iter()
            .filter(|tool| !is_answered_by_owner(tool.name));
        let mut tools: Vec<_> = at_once
            .map(|tool| (tool.name, arguments(tool.name)))
            .collect();
        tools.push((
            "step",
            r#"{"complete": true, "summary": "", "drop": ["b"]}"#,
        ));
        let reply = calls(&sent, &tools);
        let events = sent.decide(reply);
        let is_answered =
            |kind: &EventKind| matches!(kind, EventKind::CallFinished(call) if !call.is_error);
        let answered = events.iter().filter(|event| is_answered(&event.kind));
        // The question waits for a person, and `compact` for the question.
        assert_eq!(answered.count(), tools.len() - 2, "{events:?}");
    }

    /// States in which inputs of others than executors bring events.
    fn of_owner() -> Vec<(Sent, Input)> {
        let start = StartRun {
            goal: "a goal".to_owned(),
            ..StartRun::default()
        };
        let mut empty = Sent::new();
        empty.session = Session::default();
        let create = Input::Create {
            title: "test".to_owned(),
            time_to_live_ms: 0,
            principal: None,
            command: Some(("request".to_owned(), start.clone().into())),
        };
        let planned = Input::Planned {
            run: 1,
            request: None,
            outcome: Ok(plan(&["one"])),
            usage: Usage::default(),
            duration_ms: 1,
        };
        let mut commanded = running();
        commanded.receive(PauseRun::default());
        let forked = Input::Forked(Fork {
            session: "parent".to_owned(),
            request_id: "request".to_owned(),
            principal: None,
            title: String::new(),
            continues: false,
        });
        let full = Input::LimitReached {
            failure: Failure::new(FailureKind::LimitExceeded, "journal_events", "it is full"),
        };
        let queued = SubmitTurn {
            message: Some(Message::user("hello")),
            when_busy: WhenBusy::Queue,
            ..SubmitTurn::default()
        };
        let mut taken_over = pays();
        taken_over.receive(CancelRun::default());
        vec![
            (empty, create),
            (taken_over, Input::TakenOver { holder_dead: true }),
            (commanded, Input::HandleCommand),
            (after(Sent::new(), start), planned),
            (decided(), Input::Tick),
            (pays(), forked),
            (after(running(), queued), full),
            (
                after(running(), SetMode { mode: Mode::Plan }),
                Input::Imported,
            ),
        ]
    }

    /// States in which inputs about attempts bring events.
    fn of_attempts() -> Vec<(Sent, Input)> {
        let mut remembers = running();
        remembers.apply(MemorySet {
            key: "key".to_owned(),
            value: "value".to_owned(),
            writer: None,
            metadata: Default::default(),
        });
        let changed = Input::MemoryChanged {
            attempts: vec![attempt(&remembers)],
        };
        let paying = pays();
        let lost = Input::AttemptLost {
            attempt: attempt(&paying),
        };
        let (summarised, summary) = writes_summary();
        vec![
            wants_to_pay(),
            (remembers, changed),
            (paying, lost),
            reads(),
            writes(),
            takes_too_much(),
            (summarised.clone(), summary),
            loses_summary(summarised),
        ]
    }

    /// An attempt lacks what no resource has, gets it, and is carried out.
    fn of_pool() -> Vec<(Sent, Input)> {
        let begun = running();
        let attempt = attempt(&begun);
        let short = Input::Short {
            attempt,
            missing: vec![Missing {
                capability: "web_search".to_owned(),
                ..Missing::default()
            }],
            is_none: true,
        };
        let mut waiting = begun.clone();
        waiting.decide(short.clone());
        let attempts = vec![attempt];
        let placed = Input::Placed {
            attempt,
            resources: vec!["executor".to_owned()],
            waited_ms: 0,
            has_begun: false,
        };
        vec![
            (begun.clone(), short),
            (waiting, Input::Found { attempts }),
            (begun, placed),
        ]
    }

    fn report(sent: &Sent, full: Option<FullRequest>, summary: Option<Summarised>) -> Input {
        Input::Report {
            attempt: attempt(sent),
            results: Vec::new(),
            unfinished: Vec::new(),
            reply: None,
            failure: None,
            full,
            summary: summary.map(Box::new),
            retry: None,
        }
    }

    /// The next request of a turn needs more than the window of its model.
    fn takes_too_much() -> (Sent, Input) {
        let mut sent = Sent::new();
        sent.send(SubmitTurn {
            message: Some(Message::user("hello")),
            ..SubmitTurn::default()
        });
        let full = FullRequest {
            tokens: 9_000,
            estimated_tokens: 9_000,
            window: 8_000,
            max_output_tokens: 0,
            is_refused: false,
        };
        let report = report(&sent, Some(full), None);
        (sent, report)
    }

    /// The model has written the summary of a context.
    fn writes_summary() -> (Sent, Input) {
        let mut sent = Sent::new();
        let said = ["one", "two"].map(|text| ContextOp::Append(Message::user(text)));
        sent.send(ChangeContext {
            ops: said.into(),
            ..ChangeContext::default()
        });
        sent.send(CompactContext::default());
        let summary = Summarised {
            outcome: Ok("It began with one and two.".to_owned()),
            usage: Usage::default(),
            provider: "test".to_owned(),
            model: "test".to_owned(),
            duration_ms: 1,
        };
        let report = report(&sent, None, Some(summary));
        (sent, report)
    }

    fn loses_summary(sent: Sent) -> (Sent, Input) {
        let attempt = attempt(&sent);
        (sent, Input::AttemptLost { attempt })
    }

    /// The owner has read a piece of a long result.
    fn reads() -> (Sent, Input) {
        let mut sent = running();
        sent.session.handles.keep(&ResultHandle {
            handle: "result-1".to_owned(),
            bytes: 1,
            lines: 1,
            lost_bytes: 0,
            is_cut: false,
            blobs: vec![Blob {
                digest: "digest".to_owned(),
                size: 1,
            }],
        });
        let call = CallRef {
            attempt: attempt(&sent),
            tool_turn: 0,
            index: 0,
        };
        let reply = calls(&sent, &[("read_result", r#"{"handle": "result-1"}"#)]);
        sent.decide(reply);
        let answer = Answer::found("a piece".to_owned());
        (sent, Input::Answered { call, answer })
    }

    /// The owner has found what a write would change.
    fn writes() -> (Sent, Input) {
        let mut sent = running();
        let write = ToolFacts {
            effect: Effect::Idempotent,
            previews: true,
            ..ToolFacts::default()
        };
        sent.tools.insert("write".to_owned(), write);
        let reply = calls(&sent, &[("write", r#"{"path": "a"}"#)]);
        sent.decide(reply);
        let call = CallRef {
            attempt: attempt(&sent),
            tool_turn: 0,
            index: 0,
        };
        let outcome = Previewed::Shown(CallPreview::default());
        (sent, Input::Previewed { call, outcome })
    }

    /// States in which inputs about hooks bring events.
    fn of_hooks() -> [(Sent, Input); 2] {
        let pin = PinnedHook {
            name: "guard".to_owned(),
            digest: "digest".to_owned(),
            points: [Point::OnRunStart].into_iter().collect(),
            tools: Vec::new(),
        };
        let mut sent = Sent::new();
        sent.hooks = PresentHooks(vec![PresentHook { pin, agents: None }]);
        sent.send(StartRun {
            plan: Some(plan(&["one"])),
            ..StartRun::default()
        });
        let mut outcome = Outcome::new(0);
        outcome.take("guard", Verdict::Block("no".to_owned()), None, 1);
        let hooked = Input::Hooked {
            gate: Gate::of_run(Point::OnRunStart, 1),
            outcomes: vec![outcome],
            wholes: BTreeMap::new(),
        };
        let missing = Input::HooksMissing {
            run: 1,
            missing: vec!["guard".to_owned()],
            changed: Vec::new(),
        };
        [(sent.clone(), hooked), (sent, missing)]
    }

    #[test]
    fn an_input_is_decided_as_a_whole_or_not_at_all() {
        let mut decided = [false; 18];
        let inputs = of_owner().into_iter().chain(of_attempts());
        let inputs = inputs.chain(of_pool()).chain(of_hooks());
        for (mut sent, input) in inputs {
            let at = place_of(&input);
            assert!(!sent.decide(input).is_empty(), "input {at}");
            decided[at] = true;
        }
        assert_eq!(decided, [true; 18]);
    }

    /// Another kind of input needs another place.
    fn place_of(input: &Input) -> usize {
        match input {
            Input::Create { .. } => 0,
            Input::TakenOver { .. } => 1,
            Input::HandleCommand => 2,
            Input::Planned { .. } => 3,
            Input::Report { .. } => 4,
            Input::MemoryChanged { .. } => 5,
            Input::AttemptLost { .. } => 6,
            Input::Tick => 7,
            Input::Forked(_) => 8,
            Input::LimitReached { .. } => 9,
            Input::Answered { .. } => 10,
            Input::Previewed { .. } => 11,
            Input::Imported => 12,
            Input::Placed { .. } => 13,
            Input::Short { .. } => 14,
            Input::Found { .. } => 15,
            Input::Hooked { .. } => 16,
            Input::HooksMissing { .. } => 17,
        }
    }
}
