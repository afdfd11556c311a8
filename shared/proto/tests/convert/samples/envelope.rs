//! Events with every field of their envelope filled in, one for each way of authentication.

use super::{AT, CALL, Order, USAGE, plan};
use cairn_engine::command::{Command, ResumeRun, Settlement};
use cairn_engine::event::{self, Event, EventKind};
use cairn_engine::pending::{PendingId, Subject};
use cairn_engine::principal::{Authentication, Principal};

/// An event that answers no command, and has no principal.
pub(super) fn bare(kind: EventKind) -> Event {
    Event {
        at: AT,
        answers: 0,
        principal: None,
        kind,
    }
}

pub(super) fn samples() -> Vec<(&'static str, Event)> {
    use Authentication as By;
    vec![
        ("decided.process", decided("uid:1000", By::Process)),
        ("decided.socket", decided("uid:1000", By::Socket)),
        ("decided.token", decided("token", By::Token)),
        ("decided.anonymous", decided("anonymous", By::Anonymous)),
        ("decided.service", decided("orchestrator", By::Service)),
        ("command_received.principal", received()),
        ("plan_applied.answers", applied()),
    ]
}

fn decided(subject: &str, authentication: Authentication) -> Event {
    let kind = event::Decided {
        responses: String::new(),
        pending: PendingId {
            subject: Subject::Approval(CALL),
            time: 1,
        },
        settlement: Settlement::Approve,
        settle_after: 0,
    };
    Event {
        answers: 303,
        principal: Some(principal(subject, authentication)),
        ..bare(kind.into())
    }
}

/// A request has a principal, and answers nothing.
fn received() -> Event {
    let kind = event::CommandReceived {
        request_id: "q-21".into(),
        command: Command::ResumeRun(ResumeRun { run: 2 }),
    };
    Event {
        principal: Some(principal("uid:1000", Authentication::Socket)),
        ..bare(kind.into())
    }
}

/// The session itself answers a command once the planner has replied.
fn applied() -> Event {
    let kind = event::PlanApplied {
        run: 2,
        revision: 2,
        plan: plan(Order::Graph),
        numbers: vec![1.into(), 5.into()],
        request: 306,
        usage: USAGE,
        duration_ms: 2_345,
        stops: 0,
    };
    Event {
        answers: 306,
        ..bare(kind.into())
    }
}

fn principal(subject: &str, authentication: Authentication) -> Principal {
    Principal {
        subject: subject.to_owned(),
        namespace: "team-a".into(),
        authentication,
    }
}
