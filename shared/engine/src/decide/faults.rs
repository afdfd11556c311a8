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
        ApplyProposal, BridgeContext, CancelRun, CancelTurn, ChangeContext, Command, CreateContext,
        Decide, DestroyContext, PauseRun, RedoStep, RenameSession, ResumeRun, RevisePlan,
        RevokeApproval, SendMessage, Settlement, SkipStep, StartRun, SubmitTurn, SwitchContext,
        WhenBusy,
    };
    use crate::conversation::Op;
    use crate::decide::{Fork, Input, Reply, ToolFacts};
    use crate::event::{AttemptRef, EventKind, MemorySet};
    use crate::failure::{Failure, FailureKind};
    use crate::message::{FinishReason, Message, ToolCall, Usage};
    use crate::pending::pending;
    use crate::session::Session;
    use std::collections::BTreeSet;

    fn side() -> CreateContext {
        CreateContext {
            name: "side".to_owned(),
            immutable: vec![Message::user("hello")],
            ..CreateContext::default()
        }
    }

    fn turn(when_busy: WhenBusy) -> SubmitTurn {
        SubmitTurn {
            message: Some(Message::user("hello")),
            when_busy,
            ..SubmitTurn::default()
        }
    }

    fn another_plan(apply: bool) -> RevisePlan {
        RevisePlan {
            plan: Some(plan(&["three", "four"])),
            apply,
            ..RevisePlan::default()
        }
    }

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

    /// The model of the first step wants to pay.
    fn wants_to_pay() -> (Sent, Input) {
        let mut sent = running();
        let pay = ToolFacts {
            time_limit_ms: 10,
            ..ToolFacts::default()
        };
        sent.tools.insert("pay".to_owned(), pay);
        let report = Input::Report {
            attempt: attempt(&sent),
            results: Vec::new(),
            unfinished: Vec::new(),
            reply: Some(Reply {
                tool_turn: 0,
                text: "I pay.".to_owned(),
                calls: vec![ToolCall {
                    id: "id".to_owned(),
                    name: "pay".to_owned(),
                    arguments: "{}".to_owned(),
                }],
                opaque: Vec::new(),
                finish: FinishReason::ToolCalls,
                usage: Usage::default(),
                provider: "test".to_owned(),
                model: "test".to_owned(),
                duration_ms: 1,
                ops_through: 0,
            }),
            failure: None,
        };
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
        let always = Settlement::ApproveAlways { when: Vec::new() };
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

    /// States in which commands about runs are accepted.
    fn of_runs() -> Vec<(Sent, Command)> {
        let (mut asking, report) = wants_to_pay();
        asking.decide(report);
        let approve = answer(&asking, Settlement::Approve);
        let mut failed = running();
        failed.fail();
        let proposed = after(running(), another_plan(false));
        let apply = ApplyProposal {
            run: 0,
            proposal: 1,
        };
        let redo = RedoStep {
            run: 0,
            step: 1.into(),
        };
        let skip = SkipStep {
            step: 1.into(),
            ..SkipStep::default()
        };
        let start = StartRun {
            plan: Some(plan(&["one"])),
            ..StartRun::default()
        };
        let paused = after(running(), PauseRun::default());
        vec![
            (proposed, apply.into()),
            (running(), CancelRun::default().into()),
            (asking, approve.into()),
            (running(), PauseRun::default().into()),
            (failed, redo.into()),
            (paused, ResumeRun::default().into()),
            (running(), another_plan(true).into()),
            (pays(), RevokeApproval { grant: 1 }.into()),
            (running(), skip.into()),
            (Sent::new(), start.into()),
        ]
    }

    /// States in which the other commands are accepted.
    fn of_contexts() -> Vec<(Sent, Command)> {
        let queued = after(running(), turn(WhenBusy::Queue));
        let number = queued.session.queued_turns[0].number;
        let fact = || vec![("fact".to_owned(), "it rains".to_owned())];
        let bridge = BridgeContext {
            from: "main".to_owned(),
            to: "main".to_owned(),
            values: fact(),
        };
        let cancel_turn = CancelTurn {
            number,
            reason: String::new(),
        };
        let change = ChangeContext {
            ops: vec![Op::Append(Message::user("hello"))],
            ..ChangeContext::default()
        };
        let destroy = DestroyContext {
            context: "side".to_owned(),
            conclusions: fact(),
            ask_model: true,
        };
        let message = SendMessage {
            step: None,
            message: Message::user("hello"),
        };
        let rename = RenameSession {
            title: "another".to_owned(),
        };
        let switch = SwitchContext {
            context: "side".to_owned(),
        };
        let with_side = || after(Sent::new(), side());
        let first_turn = after(Sent::new(), turn(WhenBusy::Refuse));
        vec![
            (Sent::new(), bridge.into()),
            (queued, cancel_turn.into()),
            (Sent::new(), change.into()),
            (Sent::new(), side().into()),
            (with_side(), destroy.into()),
            (Sent::new(), rename.into()),
            (running(), message.into()),
            (first_turn, turn(WhenBusy::Interrupt).into()),
            (with_side(), switch.into()),
        ]
    }

    #[test]
    fn a_command_is_answered_as_a_whole_or_not_at_all() {
        let mut answered = BTreeSet::new();
        for (mut sent, command) in of_runs().into_iter().chain(of_contexts()) {
            let name = name_of(&command);
            let events = sent.send(command);
            let refused = |event: &EventKind| matches!(event, EventKind::CommandRefused(_));
            assert!(!events.iter().any(refused), "{events:?}");
            answered.insert(name);
        }
        let all = Command::NAMES.iter().map(|name| (*name).to_owned());
        assert_eq!(answered, all.collect::<BTreeSet<_>>());
    }

    fn name_of(command: &Command) -> String {
        let text = format!("{command:?}");
        text.split('(').next().unwrap_or_default().to_owned()
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
        let mut taken_over = pays();
        taken_over.receive(CancelRun::default());
        vec![
            (empty, create),
            (taken_over, Input::TakenOver { holder_dead: true }),
            (commanded, Input::HandleCommand),
            (after(Sent::new(), start), planned),
            (decided(), Input::Tick),
            (pays(), forked),
            (after(running(), turn(WhenBusy::Queue)), full),
        ]
    }

    /// States in which inputs about attempts bring events.
    fn of_attempts() -> Vec<(Sent, Input)> {
        let mut remembers = running();
        remembers.apply(MemorySet {
            key: "key".to_owned(),
            value: "value".to_owned(),
            writer: None,
        });
        let changed = Input::MemoryChanged {
            attempts: vec![attempt(&remembers)],
        };
        let paying = pays();
        let lost = Input::AttemptLost {
            attempt: attempt(&paying),
        };
        vec![wants_to_pay(), (remembers, changed), (paying, lost)]
    }

    #[test]
    fn an_input_is_decided_as_a_whole_or_not_at_all() {
        let mut decided = [false; 10];
        for (mut sent, input) in of_owner().into_iter().chain(of_attempts()) {
            let at = place_of(&input);
            assert!(!sent.decide(input).is_empty(), "input {at}");
            decided[at] = true;
        }
        assert_eq!(decided, [true; 10]);
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
        }
    }
}
