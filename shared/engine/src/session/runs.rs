//! The runs of a session: the newest one whole, and what stays of those before it.

use super::{PlanState, Purpose, Revisions, Run, RunHooks, RunStatus, Turn};
use crate::event::AgentUse;
use crate::failure::Failure;
use crate::message::Usage;
use serde::{Deserialize, Serialize};

/// All runs of a session. A run's number is its position plus 1, and only the newest may be active.
///
/// A run whose successor has begun does not change any more. Of a turn, a record and its texts stay.
/// A run with a plan stays whole but for its requests and proposals, because clients may read the plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Runs {
    past: Vec<PastRun>,
    newest: Option<Box<Run>>,
    /// Bytes of the texts of all records.
    text_bytes: usize,
    /// How many of the past runs are records.
    records: usize,
}

/// A run before the newest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum PastRun {
    Turn(EndedTurn),
    Planned(Box<Run>),
}

/// A conversation has thousands of them.
const RECORD_BYTES: usize = 64;
const _: () = assert!(size_of::<PastRun>() <= RECORD_BYTES);

/// What stays of a turn that has ended: a record, and its texts apart. A number that its field does not
/// hold counts as the largest that it does; the totals of the session are exact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct EndedTurn {
    texts: Box<Texts>,
    started_at: u64,
    cost_nano_usd: u64,
    /// In milliseconds.
    took: u32,
    first_seq: u32,
    last_seq: u32,
    input_tokens: u32,
    cached_input_tokens: u32,
    cache_write_tokens: u32,
    output_tokens: u32,
    reasoning_tokens: u32,
    unpriced_tokens: u32,
    model_calls: u16,
    tool_turns: u16,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Texts {
    context: Box<str>,
    goal: Box<str>,
    outcome: Outcome,
    further: Option<Box<Further>>,
}

/// What most turns do not have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Further {
    agent: Option<AgentUse>,
    is_compaction: bool,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Outcome {
    /// With this answer.
    Completed(Box<str>),
    /// With this failure.
    Failed(Option<Box<Failure>>),
    /// For this reason.
    Cancelled(Box<str>),
}

/// What lists show of a run, also of one that is a record by now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunSummary<'a> {
    /// From 1.
    pub number: u32,
    /// As [`Run::goal`].
    pub goal: &'a str,
    /// The context of a turn; none for a run with a plan.
    pub context: Option<&'a str>,
    /// It is no turn of its context, but compacts that.
    pub is_compaction: bool,
    /// As [`Run::agent`].
    pub agent: Option<&'a AgentUse>,
    /// What it is doing.
    pub status: RunStatus,
    /// Tokens and money of planning and all steps.
    pub usage: Usage,
    /// Tool turns so far.
    pub tool_turns: u32,
    /// When it began, in milliseconds since 1970.
    pub started_at: u64,
    /// When it ended; none while it has not.
    pub ended_at: Option<u64>,
    /// The event that began it.
    pub first_seq: u64,
    /// The event that ended it; 0 while it has not.
    pub last_seq: u64,
    /// Of a completed run: the summary of its last step.
    pub answer: &'a str,
    /// Of a failed run: why.
    pub failure: Option<&'a Failure>,
    /// Of a cancelled run: why.
    pub cancel_reason: &'a str,
    /// The plan in force. A turn that has ended has none.
    pub plan: Option<&'a PlanState>,
}

impl Runs {
    /// How many there are: the number of the newest.
    pub fn len(&self) -> usize {
        self.past.len() + usize::from(self.newest.is_some())
    }

    /// There is no run yet.
    pub fn is_empty(&self) -> bool {
        self.newest.is_none()
    }

    /// The newest.
    pub fn last(&self) -> Option<&Run> {
        self.newest.as_deref()
    }

    /// The newest.
    pub fn last_mut(&mut self) -> Option<&mut Run> {
        self.newest.as_deref_mut()
    }

    /// The run of that number, unless it is a record by now.
    pub fn get(&self, number: u32) -> Option<&Run> {
        match self.past.get((number as usize).checked_sub(1)?) {
            Some(PastRun::Planned(run)) => Some(run),
            Some(PastRun::Turn(_)) => None,
            None => self.last().filter(|run| run.number == number),
        }
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Run> {
        match self.past.get_mut((number as usize).checked_sub(1)?) {
            Some(PastRun::Planned(run)) => Some(run),
            Some(PastRun::Turn(_)) => None,
            None => self
                .newest
                .as_deref_mut()
                .filter(|run| run.number == number),
        }
    }

    /// The runs that are no records, oldest first.
    pub fn whole(&self) -> impl Iterator<Item = &Run> {
        let past = self.past.iter().filter_map(|run| match run {
            PastRun::Planned(run) => Some(&**run),
            PastRun::Turn(_) => None,
        });
        past.chain(self.last())
    }

    pub(super) fn whole_mut(&mut self) -> impl Iterator<Item = &mut Run> {
        let past = self.past.iter_mut().filter_map(|run| match run {
            PastRun::Planned(run) => Some(&mut **run),
            PastRun::Turn(_) => None,
        });
        past.chain(self.newest.as_deref_mut())
    }

    /// What lists show of the run of that number.
    pub fn summary(&self, number: u32) -> Option<RunSummary<'_>> {
        match self.past.get((number as usize).checked_sub(1)?) {
            Some(past) => Some(past.summary(number)),
            None => self
                .last()
                .filter(|run| run.number == number)
                .map(Run::summary),
        }
    }

    /// What lists show of all runs, oldest first.
    pub fn summaries(&self) -> impl Iterator<Item = RunSummary<'_>> {
        let past = self.past.iter().zip(1..);
        let past = past.map(|(run, number)| run.summary(number));
        past.chain(self.last().map(Run::summary))
    }

    /// Bytes in memory of the records with their texts.
    pub(super) fn record_bytes(&self) -> usize {
        self.records * (RECORD_BYTES + size_of::<Texts>()) + self.text_bytes
    }

    /// Bytes of the records' texts.
    pub(super) fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// The next run begins. No run is active.
    pub(super) fn begin(&mut self, run: Run) {
        let Some(before) = self.newest.replace(Box::new(run)) else {
            return;
        };
        let past = PastRun::of(before);
        if let PastRun::Turn(turn) = &past {
            self.text_bytes += turn.texts.bytes();
            self.records += 1;
        }
        self.past.push(past);
    }

    /// Events of others came to stand before those after `seq`. A run that began before them is the last
    /// one that this can concern, because runs follow one another.
    pub(super) fn renumber(&mut self, seq: u64, others: u64) {
        if let Some(run) = &mut self.newest {
            let began = run.first_seq;
            run.renumber(seq, others);
            if began <= seq {
                return;
            }
        }
        for past in self.past.iter_mut().rev() {
            let began = past.first_seq();
            past.renumber(seq, others);
            if began <= seq {
                return;
            }
        }
    }
}

impl PastRun {
    fn of(mut run: Box<Run>) -> Self {
        // The plan of the newest run alone can be changed.
        run.revisions = Revisions::default();
        run.hooks = RunHooks::default();
        match EndedTurn::of(&mut run) {
            Some(turn) => Self::Turn(turn),
            None => Self::Planned(run),
        }
    }

    fn summary(&self, number: u32) -> RunSummary<'_> {
        match self {
            Self::Turn(turn) => turn.summary(number),
            Self::Planned(run) => run.summary(),
        }
    }

    fn first_seq(&self) -> u64 {
        match self {
            Self::Turn(turn) => turn.first_seq.into(),
            Self::Planned(run) => run.first_seq,
        }
    }

    fn renumber(&mut self, seq: u64, others: u64) {
        match self {
            Self::Turn(turn) => {
                for own in [&mut turn.first_seq, &mut turn.last_seq] {
                    if u64::from(*own) > seq {
                        *own = small(u64::from(*own) + others);
                    }
                }
            }
            Self::Planned(run) => run.renumber(seq, others),
        }
    }
}

impl EndedTurn {
    /// None for a run that has a plan or has not ended. Takes the texts of others.
    fn of(run: &mut Run) -> Option<Self> {
        let turn = run.turn.as_mut()?;
        let outcome = match run.status {
            RunStatus::Completed => Outcome::Completed(boxed(&mut run.end.answer)),
            RunStatus::Failed => Outcome::Failed(run.end.failure.take().map(Box::new)),
            RunStatus::Cancelled => Outcome::Cancelled(boxed(&mut run.end.cancel_reason)),
            RunStatus::Planning
            | RunStatus::Running
            | RunStatus::Waiting(_)
            | RunStatus::Paused => return None,
        };
        let usage = run.spent.usage;
        Some(Self {
            texts: Box::new(Texts {
                further: Further::of(run.agent.take(), turn.is_compaction()),
                context: boxed(&mut turn.context),
                goal: boxed(&mut run.goal),
                outcome,
            }),
            started_at: run.started_at,
            took: small(run.end.at.map_or(0, |at| at.saturating_sub(run.started_at))),
            cost_nano_usd: usage.cost_nano_usd,
            first_seq: small(run.first_seq),
            last_seq: small(run.end.seq),
            input_tokens: small(usage.input_tokens),
            cached_input_tokens: small(usage.cached_input_tokens),
            cache_write_tokens: small(usage.cache_write_tokens),
            output_tokens: small(usage.output_tokens),
            reasoning_tokens: small(usage.reasoning_tokens),
            unpriced_tokens: small(usage.unpriced_tokens),
            model_calls: u16::try_from(usage.model_calls).unwrap_or(u16::MAX),
            tool_turns: u16::try_from(run.spent.tool_turns).unwrap_or(u16::MAX),
        })
    }

    fn summary(&self, number: u32) -> RunSummary<'_> {
        let Texts {
            context,
            goal,
            outcome,
            further,
        } = &*self.texts;
        let further = further.as_deref();
        let mut summary = RunSummary {
            number,
            goal,
            context: Some(context),
            is_compaction: further.is_some_and(|it| it.is_compaction),
            agent: further.and_then(|it| it.agent.as_ref()),
            status: RunStatus::Completed,
            usage: Usage {
                input_tokens: self.input_tokens.into(),
                cached_input_tokens: self.cached_input_tokens.into(),
                cache_write_tokens: self.cache_write_tokens.into(),
                output_tokens: self.output_tokens.into(),
                reasoning_tokens: self.reasoning_tokens.into(),
                unpriced_tokens: self.unpriced_tokens.into(),
                cost_nano_usd: self.cost_nano_usd,
                model_calls: self.model_calls.into(),
            },
            tool_turns: self.tool_turns.into(),
            started_at: self.started_at,
            ended_at: Some(self.started_at + u64::from(self.took)),
            first_seq: self.first_seq.into(),
            last_seq: self.last_seq.into(),
            answer: "",
            failure: None,
            cancel_reason: "",
            plan: None,
        };
        match outcome {
            Outcome::Completed(answer) => summary.answer = answer,
            Outcome::Failed(failure) => {
                summary.status = RunStatus::Failed;
                summary.failure = failure.as_deref();
            }
            Outcome::Cancelled(reason) => {
                summary.status = RunStatus::Cancelled;
                summary.cancel_reason = reason;
            }
        }
        summary
    }
}

impl Turn {
    /// It adds nothing to its context, but replaces older messages by a summary.
    pub fn is_compaction(&self) -> bool {
        matches!(self.purpose, Purpose::Compact(_))
    }
}

impl Further {
    fn of(agent: Option<AgentUse>, is_compaction: bool) -> Option<Box<Self>> {
        let is_there = agent.is_some() || is_compaction;
        is_there.then(|| {
            Box::new(Self {
                agent,
                is_compaction,
            })
        })
    }
}

impl Texts {
    fn bytes(&self) -> usize {
        let outcome = match &self.outcome {
            Outcome::Completed(text) | Outcome::Cancelled(text) => text.len(),
            Outcome::Failed(failure) => failure
                .as_ref()
                .map_or(0, |failure| failure.reason.len() + failure.message.len()),
        };
        let agent = self.further.as_ref().and_then(|it| it.agent.as_ref());
        let agent = agent.map_or(0, |used| used.name.len() + used.digest.len());
        self.context.len() + self.goal.len() + outcome + agent
    }
}

impl Run {
    /// What lists show of it.
    pub fn summary(&self) -> RunSummary<'_> {
        RunSummary {
            number: self.number,
            goal: &self.goal,
            context: self.turn.as_ref().map(|turn| turn.context.as_str()),
            is_compaction: self.turn.as_ref().is_some_and(Turn::is_compaction),
            agent: self.agent.as_ref(),
            status: self.status,
            usage: self.spent.usage,
            tool_turns: self.spent.tool_turns,
            started_at: self.started_at,
            ended_at: self.end.at,
            first_seq: self.first_seq,
            last_seq: self.end.seq,
            answer: &self.end.answer,
            failure: self.end.failure.as_ref(),
            cancel_reason: &self.end.cancel_reason,
            plan: self.plan.as_ref(),
        }
    }
}

fn boxed(text: &mut String) -> Box<str> {
    std::mem::take(text).into_boxed_str()
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
