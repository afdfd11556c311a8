//! The questions that a run waits for, and their names.

use crate::event::{AttemptRef, Budget, CallPreview, CallRef, WaitReason};
use crate::failure::Failure;
use crate::message::ToolCall;
use crate::plan::PlanDraft;
use crate::pool::Missing;
use crate::session::{Ask, Attempt, Call, CallStatus, FullCause, HookAsk, Run, RunStatus, Session};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The name of a question. What is asked again is another question: an answer to the first, sent
/// once more by a client that did not hear it was taken, must not answer the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingId {
    /// What it is about.
    pub subject: Subject,
    /// How often this has been asked, from 1.
    pub time: u32,
}

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject {
    /// What became of this call?
    Call(CallRef),
    /// May the run use more?
    Budget {
        /// Number of the run.
        run: u32,
    },
    /// May this call be made?
    Approval(CallRef),
    /// What the model asked by this call.
    Question(CallRef),
    /// Is this plan to be put into force?
    Plan {
        /// Number of the run.
        run: u32,
        /// Number of the proposal.
        proposal: u32,
    },
    /// How does this attempt continue, whose next request does not fit?
    Context(AttemptRef),
    /// Is this attempt to wait longer for what no resource has?
    Shortage(AttemptRef),
    /// What hooks ask about the run, or how it continues without them.
    Hook {
        /// Number of the run.
        run: u32,
    },
}

/// A question with what a person needs to answer it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// What is asked.
    pub asked: Asked,
    /// When it was asked.
    pub since: u64,
    /// How often this has been asked, from 1.
    pub time: u32,
    /// An answer was accepted and has not taken effect.
    pub is_answered: bool,
}

/// What is asked of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// What became of a call.
    Doubt {
        /// Its name.
        name: CallRef,
        /// Tool and arguments, as they were sent.
        call: ToolCall,
        /// An answer takes effect from then on; 0 for at once.
        settle_after: u64,
    },
    /// Whether a call may be made.
    Approval {
        /// Its name.
        name: CallRef,
        /// Tool and arguments, as they are sent.
        call: ToolCall,
        /// What it would change, if its tool says that.
        preview: Option<Box<CallPreview>>,
    },
    /// What the model, or the tool of a call, wants to know.
    Question {
        /// The call by which it asks.
        name: CallRef,
        /// In its words.
        question: String,
        /// Answers that it proposes.
        choices: Vec<String>,
    },
    /// Whether the run may use more.
    Budget {
        /// Number of the run.
        run: u32,
        /// Which one is used up.
        budget: Budget,
        /// What was used of it, in its unit: tool turns, tokens, 10⁻⁹ US dollars, milliseconds, calls.
        used: u64,
        /// What the run may use, in the same unit.
        allowed: u64,
        /// Calls that wait to be made; 0 for the other budgets.
        waiting: u32,
    },
    /// Whether a plan is to be put into force.
    Plan {
        /// Number of the run.
        run: u32,
        /// Number of the proposal.
        proposal: u32,
        /// The plan.
        plan: PlanDraft,
    },
    /// How an attempt continues whose next request does not fit into the window of its model.
    Context {
        /// The attempt.
        name: AttemptRef,
        /// Why no compaction helps.
        cause: FullCause,
        /// Estimated tokens of the request.
        tokens: u64,
        /// Tokens of the window.
        window: u64,
        /// Why the model wrote no summary; none for other causes.
        failure: Option<Failure>,
    },
    /// Whether an attempt is to wait longer for what no resource of the pool has. It continues by itself once one
    /// has it.
    Shortage {
        /// The attempt.
        name: AttemptRef,
        /// What it lacks, sorted by name.
        missing: Vec<Missing>,
    },
    /// Whether the run or a step may begin, because a hook requires the approval; or how the run continues without
    /// hooks that are missing or changed.
    Hook {
        /// Number of the run.
        run: u32,
        /// Which of them.
        ask: HookAsk,
    },
}

impl Pending {
    /// Why the run waits for the answer.
    pub fn reason(&self) -> WaitReason {
        match self.asked {
            Asked::Doubt { .. } => WaitReason::InDoubt,
            Asked::Approval { .. } => WaitReason::Approval,
            Asked::Question { .. } => WaitReason::Question,
            Asked::Budget { .. } => WaitReason::Budget,
            Asked::Plan { .. } => WaitReason::PlanReview,
            Asked::Context { .. } => WaitReason::Context,
            Asked::Shortage { .. } => WaitReason::Capability,
            Asked::Hook { .. } => WaitReason::Hook,
        }
    }

    /// Its name.
    pub fn id(&self) -> PendingId {
        let subject = match self.asked {
            Asked::Doubt { name, .. } => Subject::Call(name),
            Asked::Approval { name, .. } => Subject::Approval(name),
            Asked::Question { name, .. } => Subject::Question(name),
            Asked::Budget { run, .. } => Subject::Budget { run },
            Asked::Plan { run, proposal, .. } => Subject::Plan { run, proposal },
            Asked::Context { name, .. } => Subject::Context(name),
            Asked::Shortage { name, .. } => Subject::Shortage(name),
            Asked::Hook { run, .. } => Subject::Hook { run },
        };
        let time = self.time;
        PendingId { subject, time }
    }
}

impl PendingId {
    /// The call that it is about, if it is about one.
    pub fn call(&self) -> Option<CallRef> {
        match self.subject {
            Subject::Call(call) | Subject::Approval(call) | Subject::Question(call) => Some(call),
            Subject::Budget { .. }
            | Subject::Plan { .. }
            | Subject::Context(_)
            | Subject::Shortage(_)
            | Subject::Hook { .. } => None,
        }
    }

    /// The attempt that it is about, if it is about one.
    pub fn attempt(&self) -> Option<AttemptRef> {
        match self.subject {
            Subject::Context(attempt) | Subject::Shortage(attempt) => Some(attempt),
            _ => self.call().map(|call| call.attempt),
        }
    }

    /// Number of the run that it is about.
    pub fn run(&self) -> u32 {
        match self.subject {
            Subject::Call(call) | Subject::Approval(call) | Subject::Question(call) => {
                call.attempt.run
            }
            Subject::Budget { run } | Subject::Plan { run, .. } | Subject::Hook { run } => run,
            Subject::Context(attempt) | Subject::Shortage(attempt) => attempt.run,
        }
    }

    /// Reads a name back.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once('-')?;
        let (place, time) = match rest.split_once('-') {
            Some((place, time)) => (place, time.parse().ok().filter(|time| *time > 1)?),
            None => (rest, 1),
        };
        let numbers = place.split('.').map(|n| n.parse().ok());
        let numbers: Vec<u32> = numbers.collect::<Option<_>>()?;
        let call = match numbers[..] {
            [run, step, attempt, tool_turn, index] => Some(CallRef {
                attempt: AttemptRef {
                    run,
                    step: step.into(),
                    attempt,
                },
                tool_turn,
                index,
            }),
            _ => None,
        };
        let attempt = match numbers[..] {
            [run, step, attempt] => Some(AttemptRef {
                run,
                step: step.into(),
                attempt,
            }),
            _ => None,
        };
        let subject = match (kind, &numbers[..]) {
            ("budget", &[run]) => Subject::Budget { run },
            ("plan", &[run, proposal]) => Subject::Plan { run, proposal },
            ("hook", &[run]) => Subject::Hook { run },
            ("context", _) => Subject::Context(attempt?),
            ("shortage", _) => Subject::Shortage(attempt?),
            ("call", _) => Subject::Call(call?),
            ("approval", _) => Subject::Approval(call?),
            ("question", _) => Subject::Question(call?),
            _ => return None,
        };
        Some(Self { subject, time })
    }
}

impl fmt::Display for PendingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, call) = match &self.subject {
            Subject::Budget { run } => {
                write!(f, "budget-{run}")?;
                return self.fmt_time(f);
            }
            Subject::Plan { run, proposal } => {
                write!(f, "plan-{run}.{proposal}")?;
                return self.fmt_time(f);
            }
            Subject::Hook { run } => {
                write!(f, "hook-{run}")?;
                return self.fmt_time(f);
            }
            Subject::Context(attempt) => return self.fmt_attempt(f, "context", *attempt),
            Subject::Shortage(attempt) => return self.fmt_attempt(f, "shortage", *attempt),
            Subject::Call(call) => ("call", call),
            Subject::Approval(call) => ("approval", call),
            Subject::Question(call) => ("question", call),
        };
        let AttemptRef { run, step, attempt } = call.attempt;
        let CallRef {
            tool_turn, index, ..
        } = call;
        write!(f, "{kind}-{run}.{step}.{attempt}.{tool_turn}.{index}")?;
        self.fmt_time(f)
    }
}

impl PendingId {
    fn fmt_attempt(
        &self,
        f: &mut fmt::Formatter<'_>,
        kind: &str,
        attempt: AttemptRef,
    ) -> fmt::Result {
        let AttemptRef { run, step, attempt } = attempt;
        write!(f, "{kind}-{run}.{step}.{attempt}")?;
        self.fmt_time(f)
    }

    /// What is asked for the first time has no number.
    fn fmt_time(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.time {
            1 => Ok(()),
            time => write!(f, "-{time}"),
        }
    }
}

/// The open questions of a session, oldest first.
pub fn pending(session: &Session) -> Vec<Pending> {
    let Some(run) = session.active_run() else {
        return Vec::new();
    };
    let mut open = Vec::new();
    for (attempt_name, _, attempt) in run.running_attempts() {
        let calls = attempt.last_calls(attempt_name);
        open.extend(calls.filter_map(|(name, call)| question_of(name, call)));
        open.extend(full_context_of(attempt_name, attempt));
        open.extend(shortage_of(attempt_name, attempt));
    }
    open.extend(
        run.revisions
            .review
            .and_then(|proposal| review_of(run, proposal)),
    );
    open.extend(question_of_hooks(run));
    let is_asked = run.status == RunStatus::Waiting(WaitReason::Budget);
    let budget = run.spent.asked.filter(|_| is_asked);
    open.extend(budget.map(|budget| {
        let (used, allowed) = run.figures(budget, session.updated_at);
        let asked = Asked::Budget {
            run: run.number,
            budget,
            used,
            allowed,
            waiting: match budget {
                Budget::Calls => run.calls_waiting(),
                _ => 0,
            },
        };
        new(asked, run.spent.asked_at, budget_question(run).time)
    }));
    open
}

/// Why people are asked, and since when: for each question that [`pending`] has, in its order. Copies no
/// text.
pub fn reasons(session: &Session) -> impl Iterator<Item = (WaitReason, u64)> {
    let run = session.active_run();
    let attempts = run.into_iter().flat_map(Run::running_attempts);
    let of_attempts = attempts.flat_map(|(.., attempt)| {
        let calls = attempt.calls.iter();
        let calls = calls.filter_map(|call| Some((call.status.asks()?, call.asked_at)));
        let full = attempt.full.as_ref();
        let short = attempt.shortage();
        let calls = calls.chain(full.map(|full| (WaitReason::Context, full.since)));
        calls.chain(short.map(|short| (WaitReason::Capability, short.since)))
    });
    let review = run.and_then(|run| {
        let proposals = &run.revisions.proposals;
        proposals.get(&run.revisions.review?)?;
        Some((WaitReason::PlanReview, run.revisions.review_at))
    });
    let is_asked = |run: &&Run| run.status == RunStatus::Waiting(WaitReason::Budget);
    let budget = run.filter(is_asked).and_then(|run| {
        run.spent.asked?;
        Some((WaitReason::Budget, run.spent.asked_at))
    });
    let hooks = run.and_then(|run| run.hooks.asks.as_ref());
    let hooks = hooks.map(|ask| (WaitReason::Hook, since_of(ask)));
    of_attempts.chain(review).chain(hooks).chain(budget)
}

fn new(asked: Asked, since: u64, time: u32) -> Pending {
    Pending {
        asked,
        since,
        time,
        is_answered: false,
    }
}

fn review_of(run: &Run, proposal: u32) -> Option<Pending> {
    let plan = run.revisions.proposals.get(&proposal)?.plan.clone();
    let asked = Asked::Plan {
        run: run.number,
        proposal,
        plan,
    };
    let (since, time) = (run.revisions.review_at, plan_question(run, proposal).time);
    Some(Pending {
        is_answered: run.revisions.is_denied(proposal),
        ..new(asked, since, time)
    })
}

/// What is asked of an attempt whose next request does not fit.
fn full_context_of(name: AttemptRef, attempt: &Attempt) -> Option<Pending> {
    let full = attempt.full.as_ref()?;
    let asked = Asked::Context {
        name,
        cause: full.cause,
        tokens: full.tokens,
        window: full.window,
        failure: full.failure.clone(),
    };
    Some(new(asked, full.since, attempt.times_full))
}

/// What is asked of an attempt that lacks what no resource has.
fn shortage_of(name: AttemptRef, attempt: &Attempt) -> Option<Pending> {
    let short = attempt.shortage()?;
    let missing = short.missing.clone();
    let asked = Asked::Shortage { name, missing };
    Some(new(asked, short.since, attempt.times_short))
}

/// What is asked of a run because of hooks.
fn question_of_hooks(run: &Run) -> Option<Pending> {
    let ask = run.hooks.asks.clone()?;
    let since = since_of(&ask);
    let asked = Asked::Hook {
        run: run.number,
        ask,
    };
    Some(new(asked, since, run.hooks.times_asked))
}

fn since_of(ask: &HookAsk) -> u64 {
    match ask {
        HookAsk::Changed { since, .. } | HookAsk::Approval { since, .. } => *since,
    }
}

/// What a call asks, if it does.
fn question_of(name: CallRef, call: &Call) -> Option<Pending> {
    match &call.status {
        CallStatus::InDoubt {
            settle_after,
            answer,
        } => {
            let asked = Asked::Doubt {
                name,
                call: call.as_sent(),
                settle_after: *settle_after,
            };
            Some(Pending {
                is_answered: answer.is_some(),
                ..new(asked, call.asked_at, call.doubts)
            })
        }
        CallStatus::Asking {
            ask: Ask::Approval { .. },
            answer: None,
        } => {
            let asked = Asked::Approval {
                name,
                call: call.as_sent(),
                preview: call.preview.clone(),
            };
            Some(new(asked, call.asked_at, call.asks))
        }
        CallStatus::Asking {
            ask: Ask::Input { question },
            answer: None,
        } => {
            let asked = Asked::Question {
                name,
                question: format!("tool '{}' asks: {}", call.call.name, question.text),
                choices: question.choices.clone(),
            };
            Some(new(asked, call.asked_at, call.asks))
        }
        CallStatus::Asking {
            ask: Ask::Question { question, choices },
            answer: None,
        } => {
            let (question, choices) = (question.clone(), choices.clone());
            let asked = Asked::Question {
                name,
                question,
                choices,
            };
            Some(new(asked, call.asked_at, call.asks))
        }
        _ => None,
    }
}

/// The question that a run asks when a budget is used up.
pub(crate) fn budget_question(run: &Run) -> PendingId {
    PendingId {
        subject: Subject::Budget { run: run.number },
        time: run.spent.times_asked,
    }
}

/// The question whether that plan is to be put into force. A plan that was denied is asked about
/// anew if there is no other one.
pub(crate) fn plan_question(run: &Run, proposal: u32) -> PendingId {
    let denials = run
        .revisions
        .proposals
        .get(&proposal)
        .map_or(0, |it| it.denials);
    PendingId {
        subject: Subject::Plan {
            run: run.number,
            proposal,
        },
        time: match run.revisions.is_denied(proposal) {
            true => denials,
            false => denials + 1,
        },
    }
}

/// The call, if its run is active and its attempt under way.
pub(crate) fn pending_call(session: &Session, call: CallRef) -> Option<&Call> {
    let active = session.active_run()?;
    (active.number == call.attempt.run).then(|| session.call(call))?
}
