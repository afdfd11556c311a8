//! What follows from each answer at each point, as the contract has it. It is written down here, and nothing of it is
//! computed by what is tested.

use super::cases::{Behaviour, Case, Kind};
use cairn_engine::hooks::{Point, VerdictKind};
use cairn_hooks::OnError;

/// What a point takes, from the mildest to the strictest, and what counts there if a hook fails that says nothing of it.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) point: Point,
    pub(super) takes: &'static [VerdictKind],
    pub(super) after_failure: VerdictKind,
}

const fn row(point: Point, takes: &'static [VerdictKind], after_failure: VerdictKind) -> Row {
    Row {
        point,
        takes,
        after_failure,
    }
}

/// The points in the order of the contract.
pub(super) static ROWS: [Row; 14] = {
    use VerdictKind::{Block, Mutate, Proceed, RequireApproval, Skip};
    [
        row(
            Point::OnRunStart,
            &[Proceed, RequireApproval, Block],
            Proceed,
        ),
        row(Point::OnRunEnd, &[Proceed], Proceed),
        row(
            Point::OnPlanProposed,
            &[Proceed, Mutate, RequireApproval, Block],
            Proceed,
        ),
        row(
            Point::OnStepStart,
            &[Proceed, Skip, RequireApproval, Block],
            Proceed,
        ),
        row(Point::OnTurnStart, &[Proceed, Block], Proceed),
        row(Point::PreRequest, &[Proceed, Mutate, Skip, Block], Block),
        row(Point::OnRetry, &[Proceed, Block], Proceed),
        row(Point::PostRequest, &[Proceed, Mutate, Block], Proceed),
        row(
            Point::PreToolCall,
            &[Proceed, Mutate, Skip, RequireApproval, Block],
            Block,
        ),
        row(Point::PostToolCall, &[Proceed, Mutate, Block], Proceed),
        row(
            Point::OnCompaction,
            &[Proceed, Mutate, Skip, Block],
            Proceed,
        ),
        row(Point::OnError, &[Proceed], Proceed),
        row(Point::OnTurnEnd, &[Proceed, Block], Proceed),
        row(Point::OnPlanStepComplete, &[Proceed, Block], Proceed),
    ]
};

/// The row of a point.
pub(super) fn row_of(point: Point) -> &'static Row {
    let mut rows = ROWS.iter();
    let row = rows.find(|row| row.point == point);
    row.expect("a row for each point")
}

/// What counts of what a hook does. An answer in time is not changed by `on_error`.
pub(super) fn counted(case: &Case) -> VerdictKind {
    let row = row_of(case.point);
    let after_failure = match case.on_error {
        None => row.after_failure,
        Some(OnError::Block) => VerdictKind::Block,
        Some(OnError::Proceed) => VerdictKind::Proceed,
    };
    match case.behaviour {
        Behaviour::Answers(kind) | Behaviour::ComesBack(kind) => kind,
        _ if row.takes.contains(&after_failure) => after_failure,
        // Nothing that counts can block here.
        _ => VerdictKind::Proceed,
    }
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Completed,
    /// For a reason that is not the hook's.
    Failed,
    /// By the hook, without a result.
    Blocked,
    /// By the hook, and the result of the step stands.
    BlockedAfterwards,
}

/// Where the words of a hook, or its changes, are found afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaches {
    Nothing,
    /// A request of the model, counted from 0, and none before it.
    Request(usize),
    /// The arguments with which the tool is called.
    Arguments,
    /// The reason of the step that is skipped.
    SkippedStep,
    /// The failure of the run.
    Failure,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Follows {
    pub(super) end: End,
    /// How often the model is asked.
    pub(super) requests: usize,
    /// How often the tool is called.
    pub(super) calls: usize,
    /// How often a person is asked.
    pub(super) decisions: usize,
    pub(super) reaches: Reaches,
}

/// A run without a hook: the model has the tool called, and then ends the step.
const USUAL: Follows = Follows {
    end: End::Completed,
    requests: 2,
    calls: 1,
    decisions: 0,
    reaches: Reaches::Nothing,
};
/// Requests of the turns whose messages are compacted.
pub(super) const TURNS: usize = 4;

const fn blocked(requests: usize, calls: usize) -> Follows {
    Follows {
        end: End::Blocked,
        requests,
        calls,
        reaches: Reaches::Failure,
        ..USUAL
    }
}

const fn reaching(reaches: Reaches) -> Follows {
    Follows { reaches, ..USUAL }
}

/// What follows at a point from what counts there.
pub(super) fn follows(point: Point, counted: VerdictKind) -> Follows {
    use VerdictKind::{Block, Mutate, Proceed, RequireApproval, Skip};
    match (point, counted) {
        (Point::OnCompaction, counted) => of_compaction(counted),
        // The model is asked once more after its error.
        (Point::OnRetry, Proceed) => Follows {
            requests: 3,
            ..USUAL
        },
        (Point::OnRetry | Point::PostRequest, Block) => blocked(1, 0),
        (Point::OnError, Proceed) => Follows {
            end: End::Failed,
            requests: 1,
            calls: 0,
            ..USUAL
        },
        (_, Proceed) => USUAL,
        (
            Point::OnRunStart | Point::OnPlanProposed | Point::OnStepStart | Point::PreToolCall,
            RequireApproval,
        ) => Follows {
            decisions: 1,
            ..USUAL
        },
        (
            Point::OnRunStart
            | Point::OnPlanProposed
            | Point::OnStepStart
            | Point::OnTurnStart
            | Point::PreRequest,
            Block,
        ) => blocked(0, 0),
        (Point::OnPlanProposed | Point::PreRequest, Mutate) => reaching(Reaches::Request(0)),
        (Point::OnStepStart, Skip) => Follows {
            requests: 0,
            calls: 0,
            ..reaching(Reaches::SkippedStep)
        },
        // The model is asked for the first time after the reply of the hook, and ends the step.
        (Point::PreRequest, Skip) => Follows {
            requests: 1,
            calls: 0,
            ..reaching(Reaches::Request(0))
        },
        (Point::PostRequest, Mutate) | (Point::PostToolCall, Mutate | Block) => {
            reaching(Reaches::Request(1))
        }
        (Point::PreToolCall, Mutate) => reaching(Reaches::Arguments),
        (Point::PreToolCall, Skip | Block) => Follows {
            calls: 0,
            ..reaching(Reaches::Request(1))
        },
        (Point::OnTurnEnd | Point::OnPlanStepComplete, Block) => Follows {
            end: End::BlockedAfterwards,
            ..reaching(Reaches::Failure)
        },
        (point, counted) => panic!("{point:?} does not take {counted:?}"),
    }
}

/// A person requests the compaction, so that one more request is for the summary.
fn of_compaction(counted: VerdictKind) -> Follows {
    let passes = Follows {
        requests: TURNS + 1,
        calls: 0,
        ..USUAL
    };
    match counted {
        VerdictKind::Proceed => passes,
        VerdictKind::Mutate => Follows {
            reaches: Reaches::Request(TURNS),
            ..passes
        },
        VerdictKind::Skip | VerdictKind::Block => blocked(TURNS, 0),
        VerdictKind::RequireApproval => panic!("OnCompaction does not take {counted:?}"),
    }
}

/// Words that a Block or a change of this case brings along.
pub(super) fn words(case: &Case) -> &'static str {
    match (case.behaviour, case.kind) {
        (Behaviour::Answers(_) | Behaviour::ComesBack(_), _) => super::cases::CHANGED,
        (Behaviour::Late, _) => "it did not answer within",
        (Behaviour::Unreachable, Kind::Program) => "cannot be started in",
        (Behaviour::Unreachable, _) => "it could not be reached for 30s",
        (Behaviour::NotTaken, _) if case.point == Point::PreToolCall => {
            "does not change the output"
        }
        (Behaviour::NotTaken, _) => "does not take the answer",
        (Behaviour::Wrong, Kind::InProcess) => "no answer",
        (Behaviour::Wrong, Kind::Program) => "it ended with exit status 3",
        (Behaviour::Wrong, Kind::Host) => "its answer cannot be read",
    }
}

/// How often the question is asked that the hook does not simply let pass: at least so often, and at most.
pub(super) fn times_asked(case: &Case) -> (u32, u32) {
    match (case.behaviour, case.kind) {
        // With pauses of 50 ms to 2 s.
        (Behaviour::Unreachable, Kind::InProcess) => (10, 22),
        // What is not there counts nothing.
        (Behaviour::Unreachable, _) => (0, 0),
        (Behaviour::ComesBack(_), Kind::InProcess) => (3, 3),
        (Behaviour::ComesBack(_), Kind::Host) => (2, 2),
        _ => (1, 1),
    }
}
