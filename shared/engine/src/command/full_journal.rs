//! What becomes of each command in a session whose journal is full.

use super::testing::{Sent, plan};
use super::{
    ApplyProposal, BridgeContext, CancelRun, CancelTurn, ChangeContext, Command, CompactContext,
    ContextOp, CreateContext, Decide, DestroyContext, LimitOverrides, PauseRun, RedoStep,
    RenameSession, ResumeRun, RevisePlan, RevokeApproval, SendMessage, SetMode, Settlement,
    SkipStep, StartRun, SubmitTurn, SwitchAgent, SwitchContext, WhenBusy, examples,
};
use crate::decide::Input;
use crate::event::{ApprovalGranted, EventKind};
use crate::failure::{Failure, FailureKind};
use crate::message::Message;
use crate::pending::plan_question;
use crate::rules::DEFAULT_AGENT;
use crate::session::Mode;

/// A command that a session with room in its journal accepts.
pub(super) trait Example: Into<Command> {
    /// Changes the [`busy`] session until it accepts the command.
    fn example(sent: &mut Sent) -> Self;
}

pub(super) fn example<C: Example>() -> (Sent, Command) {
    let mut sent = busy();
    let command = C::example(&mut sent);
    (sent, command.into())
}

/// A session with a run, a second context, a queued turn for it, and an approval.
fn busy() -> Sent {
    let mut sent = Sent::running(&["one", "two"]);
    sent.send(CreateContext {
        name: "side".to_owned(),
        ..CreateContext::default()
    });
    sent.send(SubmitTurn {
        context: "side".to_owned(),
        ..later()
    });
    sent.apply(ApprovalGranted {
        grant: 1,
        tool: "pay".to_owned(),
        tool_digest: "digest".to_owned(),
        when: Vec::new(),
        agent: DEFAULT_AGENT.to_owned(),
        scope: None,
    });
    sent
}

fn later() -> SubmitTurn {
    SubmitTurn {
        message: Some(Message::user("hello")),
        when_busy: WhenBusy::Queue,
        ..SubmitTurn::default()
    }
}

impl Example for ApplyProposal {
    fn example(sent: &mut Sent) -> Self {
        let revise = RevisePlan::example(sent);
        sent.send(revise);
        Self {
            run: 0,
            proposal: 1,
        }
    }
}

impl Example for BridgeContext {
    fn example(_: &mut Sent) -> Self {
        Self {
            from: String::new(),
            to: "side".to_owned(),
            values: vec![("fact".to_owned(), "it rains".to_owned())],
        }
    }
}

impl Example for CancelRun {
    fn example(_: &mut Sent) -> Self {
        Self::default()
    }
}

impl Example for CancelTurn {
    fn example(sent: &mut Sent) -> Self {
        Self {
            number: sent.session.queued_turns[0].number,
            reason: String::new(),
        }
    }
}

impl Example for ChangeContext {
    fn example(_: &mut Sent) -> Self {
        Self {
            ops: vec![ContextOp::Append(Message::user("hello"))],
            ..Self::default()
        }
    }
}

impl Example for CompactContext {
    fn example(sent: &mut Sent) -> Self {
        *sent = Sent::new();
        let messages = ["one", "two", "three"].map(|text| ContextOp::Append(Message::user(text)));
        sent.send(ChangeContext {
            ops: messages.into(),
            ..ChangeContext::default()
        });
        Self {
            keep: 1,
            ..Self::default()
        }
    }
}

impl Example for CreateContext {
    fn example(_: &mut Sent) -> Self {
        Self {
            name: "other".to_owned(),
            ..Self::default()
        }
    }
}

impl Example for Decide {
    fn example(sent: &mut Sent) -> Self {
        *sent = Sent::new();
        sent.send(StartRun {
            plan: Some(plan(&["one"])),
            limits: LimitOverrides {
                review_plan: true,
                ..LimitOverrides::default()
            },
            ..StartRun::default()
        });
        Self {
            pending_id: plan_question(sent.run(), 1).to_string(),
            settlement: Settlement::Approve,
        }
    }
}

impl Example for DestroyContext {
    fn example(_: &mut Sent) -> Self {
        Self {
            context: "side".to_owned(),
            ..Self::default()
        }
    }
}

impl Example for PauseRun {
    fn example(_: &mut Sent) -> Self {
        Self::default()
    }
}

impl Example for RedoStep {
    fn example(sent: &mut Sent) -> Self {
        *sent = Sent::running(&["one"]);
        sent.fail();
        Self {
            run: 0,
            step: 1.into(),
        }
    }
}

impl Example for RenameSession {
    fn example(_: &mut Sent) -> Self {
        Self {
            title: "other".to_owned(),
        }
    }
}

impl Example for ResumeRun {
    fn example(sent: &mut Sent) -> Self {
        sent.send(PauseRun::default());
        Self::default()
    }
}

impl Example for RevisePlan {
    fn example(_: &mut Sent) -> Self {
        Self {
            plan: Some(plan(&["three"])),
            ..Self::default()
        }
    }
}

impl Example for RevokeApproval {
    fn example(_: &mut Sent) -> Self {
        Self { grant: 1 }
    }
}

impl Example for SendMessage {
    fn example(_: &mut Sent) -> Self {
        Self {
            step: None,
            message: Message::user("hello"),
        }
    }
}

impl Example for SkipStep {
    fn example(_: &mut Sent) -> Self {
        Self {
            step: 1.into(),
            ..Self::default()
        }
    }
}

impl Example for StartRun {
    fn example(sent: &mut Sent) -> Self {
        *sent = Sent::new();
        Self {
            plan: Some(plan(&["one"])),
            ..Self::default()
        }
    }
}

impl Example for SetMode {
    fn example(_: &mut Sent) -> Self {
        Self { mode: Mode::Plan }
    }
}

impl Example for SubmitTurn {
    fn example(_: &mut Sent) -> Self {
        later()
    }
}

impl Example for SwitchAgent {
    fn example(_: &mut Sent) -> Self {
        Self {
            context: "side".to_owned(),
            agent: String::new(),
        }
    }
}

impl Example for SwitchContext {
    fn example(_: &mut Sent) -> Self {
        Self {
            context: "side".to_owned(),
        }
    }
}

fn limit_reached() -> Input {
    let failure = Failure::new(FailureKind::LimitExceeded, "journal_events", "it is full");
    Input::LimitReached { failure }
}

fn is_refusal(kind: &EventKind) -> bool {
    matches!(kind, EventKind::CommandRefused(_))
}

/// An event outside the reserve would be refused from each owner, and five owners later the session
/// would be quarantined.
#[test]
fn a_full_journal_answers_each_command_from_its_reserve() {
    for (sent, command) in examples() {
        let accepted = sent.clone().send(command.clone());
        let is_accepted = !accepted.iter().any(is_refusal);
        assert!(is_accepted, "{command:?}: {accepted:?}");
        // The run ends with the command, or has ended before it.
        let mut at_rest = sent.clone();
        at_rest.decide(limit_reached());
        for mut full in [sent, at_rest] {
            full.receive(command.clone());
            let events = full.decide(limit_reached());
            assert!(full.session.commands.is_empty(), "{command:?}: {events:?}");
            let fits = events.iter().all(|event| event.kind.ends_only());
            assert!(fits, "{command:?}: {events:?}");
            let is_refused = events.iter().any(|event| is_refusal(&event.kind));
            assert!(is_refused || !command.begins_work(), "{command:?}");
        }
    }
}
