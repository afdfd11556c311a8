//! Hooks: the points at which a run asks, what each point takes, and what follows from several answers. Pure.
//!
//! A question is named by its [`Gate`]. A gate is open in the state from an event on, and what comes next waits. The
//! owner asks ([`Work::AskHooks`](crate::outstanding::Work::AskHooks)) and decides
//! [`Input::Hooked`](crate::decide::Input::Hooked). No continuation is stored: the decision looks at the state behind the
//! gate once more.

mod question;

pub use question::{AskedCall, EndStatus, NextRequest, Payload, Question};

use crate::agent::AgentDefinition;
use crate::conversation::{Conversation, Op};
use crate::event::{AttemptRef, CallRef};
use crate::limits::MAX_COMPACTION_TEXT;
use crate::message::{Message, Role};
use crate::plan::{Plan, PlanDraft};
use crate::rules::{DEFAULT_AGENT, NamePattern};
use crate::transitions::Applied;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Most hooks that one run asks.
pub const MAX_HOOKS: usize = 32;
/// Most bytes of an answer.
pub const MAX_ANSWER: usize = 256 * 1024;
/// Most bytes that all answers to one question change, those about all calls of a reply together.
pub(crate) const MAX_CHANGES: usize = 4 * MAX_ANSWER;
/// Most bytes of a reason.
pub const MAX_REASON: usize = 4096;
/// Most ended runs whose hooks on [`Point::OnRunEnd`] are still asked. The oldest are dropped.
pub const MAX_ENDED: usize = 16;

/// What an answer may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Changes {
    /// Nothing.
    None,
    /// The arguments of a call.
    Arguments,
    /// The output of a call.
    Output,
    /// The text of a reply.
    Text,
    /// The messages of the turn or attempt.
    Ops,
    /// A plan.
    Plan,
    /// The prompt of a summary.
    Prompt,
}

/// Makes [`Point`] of rows `Name = number: changes [+ further kinds of answers]`. The number is that of the contract
/// (`cairn.event.v1.HookPoint`) and of the bit in [`Points`].
macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $number:literal: $changes:ident $(+ $extra:ident)*;)*) => {
        /// A point of a run at which hooks are asked, in the order of the contract.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        pub enum Point {
            $($(#[$doc])* $point = $number,)*
        }

        impl Point {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$point,)*];

            /// Its name in settings, contracts and traces.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$point => stringify!($point),)*
                }
            }

            /// What an answer may change.
            pub const fn changes(self) -> Changes {
                match self {
                    $(Self::$point => Changes::$changes,)*
                }
            }

            /// Whether it takes an answer of this kind. Every point takes Proceed.
            pub const fn takes(self, kind: VerdictKind) -> bool {
                match self {
                    $(Self::$point => takes!(kind, $changes $(, $extra)*),)*
                }
            }
        }
    };
}

/// One row of [`points!`].
macro_rules! takes {
    ($kind:expr, $changes:ident $(, $extra:ident)*) => {
        match $kind {
            VerdictKind::Proceed => true,
            VerdictKind::Mutate => !matches!(Changes::$changes, Changes::None),
            $(VerdictKind::$extra => true,)*
            #[allow(unreachable_patterns, reason = "a point may take all kinds")]
            _ => false,
        }
    };
}

points! {
    /// A run began, and does nothing yet.
    OnRunStart = 1: None + RequireApproval + Block;
    /// A run has ended, in whatever way.
    OnRunEnd = 2: None;
    /// A plan comes into force, or is shown to a person, next.
    OnPlanProposed = 3: Plan + RequireApproval + Block;
    /// A step of a plan begins next.
    OnStepStart = 4: None + Skip + RequireApproval + Block;
    /// A turn of a conversation, or an attempt at a step, begins next.
    OnTurnStart = 5: None + Block;
    /// A model is asked next.
    PreRequest = 6: Ops + Skip + Block;
    /// A model is asked again after an error.
    OnRetry = 7: None + Block;
    /// A model replied, and nothing follows from the reply yet.
    PostRequest = 8: Text + Block;
    /// A tool is called next.
    PreToolCall = 9: Arguments + Skip + RequireApproval + Block;
    /// A tool gave its result, and the model does not have it yet.
    PostToolCall = 10: Output + Block;
    /// Older messages give way next.
    OnCompaction = 11: Prompt + Skip + Block;
    /// A turn or an attempt failed, and its error is not returned yet.
    OnError = 12: None;
    /// A turn or an attempt completed.
    OnTurnEnd = 13: None + Block;
    /// A step of a plan ended, in whatever way.
    OnPlanStepComplete = 14: None + Block;
}

impl Point {
    /// What counts if a hook fails that says nothing of it.
    pub const fn blocks_on_error(self) -> bool {
        matches!(self, Self::PreRequest | Self::PreToolCall)
    }

    /// The whole attempt waits at it.
    pub const fn holds_attempt(self) -> bool {
        matches!(
            self,
            Self::OnTurnStart
                | Self::PreRequest
                | Self::OnRetry
                | Self::PostRequest
                | Self::OnCompaction
        )
    }

    /// A Proceed may be decided with the next report of the attempt; see `owner/hooks.rs`.
    pub const fn may_be_late(self) -> bool {
        matches!(self, Self::PreRequest | Self::OnRetry)
    }

    /// The answer changes nothing.
    pub const fn observes(self) -> bool {
        !self.takes(VerdictKind::Block)
    }
}

/// Points as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Points(u16);

impl Points {
    /// With one more.
    #[must_use]
    pub const fn with(self, point: Point) -> Self {
        Self(self.0 | (1 << point as u16))
    }

    /// Whether it is among them.
    pub const fn has(self, point: Point) -> bool {
        self.0 & (1 << point as u16) != 0
    }

    /// All in either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<Point> for Points {
    fn from_iter<T: IntoIterator<Item = Point>>(points: T) -> Self {
        points.into_iter().fold(Self::default(), Self::with)
    }
}

/// Names a question within a session. Fields that a point has no use for are 0; see `cairn/event/v1/event.proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Gate {
    /// The point.
    pub point: Point,
    /// Run, step and attempt.
    pub attempt: AttemptRef,
    /// The tool turn, or the turn index.
    pub turn: u32,
    /// The call, the try, or how often it was asked.
    pub index: u32,
}

impl Gate {
    /// Of a point of a run.
    pub fn of_run(point: Point, run: u32) -> Self {
        let attempt = AttemptRef {
            run,
            ..AttemptRef::default()
        };
        Self::of_attempt(point, attempt, 0)
    }

    /// Of a point of an attempt.
    pub fn of_attempt(point: Point, attempt: AttemptRef, turn: u32) -> Self {
        Self {
            point,
            attempt,
            turn,
            index: 0,
        }
    }

    /// Of the result of a call.
    pub fn of_result(call: CallRef) -> Self {
        Self {
            index: call.index,
            ..Self::of_attempt(Point::PostToolCall, call.attempt, call.tool_turn)
        }
    }

    /// The call at a position of the reply that the gate is about.
    pub fn call_at(self, index: u32) -> CallRef {
        CallRef {
            attempt: self.attempt,
            tool_turn: self.turn,
            index,
        }
    }

    /// The key that goes with every repetition of the question to one hook, and with no other question.
    pub fn key(self, namespace: &str, session: &str, hook: &str) -> String {
        crate::key::hook_key(namespace, session, hook, self)
    }
}

/// A hook that a run asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedHook {
    /// Its name.
    pub name: String,
    /// Covers all that defines it.
    pub digest: String,
    /// Where it is asked.
    pub points: Points,
    /// Patterns of the tools whose calls it is asked about; empty for all.
    pub tools: Vec<String>,
}

impl PinnedHook {
    /// It is asked at the point, and about calls of the tool if one is named.
    pub fn listens(&self, point: Point, tool: Option<&str>) -> bool {
        self.points.has(point) && tool.is_none_or(|tool| self.covers(tool))
    }

    fn covers(&self, tool: &str) -> bool {
        self.tools.is_empty() || is_among(tool, &self.tools)
    }
}

/// Whether a pattern covers the name. A pattern that is none covers every name, because a hook only restricts.
fn is_among(name: &str, patterns: &[String]) -> bool {
    let mut patterns = patterns.iter().map(|pattern| NamePattern::new(pattern));
    patterns.any(|pattern| pattern.map_or(true, |it| it.is_match(name)))
}

/// A hook that there is now, for [`Facts::hooks`](crate::decide::Facts::hooks).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentHook {
    /// What a run pins of it.
    pub pin: PinnedHook,
    /// Patterns of the agents whose runs ask it; none for all. An agent that names it asks it, too.
    pub agents: Option<Vec<String>>,
}

/// The hooks that there are now, in the order in which they are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PresentHooks(pub Vec<PresentHook>);

impl PresentHooks {
    /// There are none.
    pub fn none() -> &'static Self {
        static NONE: PresentHooks = PresentHooks(Vec::new());
        &NONE
    }

    /// The hooks that a run of this agent asks; none is the plain default agent.
    pub fn of_agent(&self, agent: Option<&AgentDefinition>) -> Vec<PinnedHook> {
        let name = agent.map_or(DEFAULT_AGENT, |agent| &agent.name);
        let named = agent.map_or(&[][..], |agent| agent.hooks.as_slice());
        let is_asked = |hook: &&PresentHook| {
            let patterns = hook.agents.as_deref();
            patterns.is_none_or(|patterns| is_among(name, patterns))
                || named.contains(&hook.pin.name)
        };
        let asked = self.0.iter().filter(is_asked);
        asked.map(|hook| hook.pin.clone()).collect()
    }
}

/// The kinds of answers, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum VerdictKind {
    /// Continue.
    Proceed,
    /// Continue with a changed payload.
    Mutate,
    /// Continue as if it were done.
    Skip,
    /// Ask a person first.
    RequireApproval,
    /// Do not do it.
    Block,
}

impl VerdictKind {
    /// All of them, from the mildest to the strictest.
    pub const ALL: [Self; 5] = [
        Self::Proceed,
        Self::Mutate,
        Self::Skip,
        Self::RequireApproval,
        Self::Block,
    ];

    /// Its name in answers of programs and in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proceed => "proceed",
            Self::Mutate => "mutate",
            Self::Skip => "skip",
            Self::RequireApproval => "require_approval",
            Self::Block => "block",
        }
    }
}

/// What a hook answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Continue.
    Proceed,
    /// Continue with this in place of the payload.
    Mutate(Mutation),
    /// Continue with this result.
    Skip(String),
    /// Ask a person first, who reads this.
    RequireApproval(String),
    /// Do not do it, because of this.
    Block(String),
}

impl Verdict {
    /// Its kind.
    pub const fn kind(&self) -> VerdictKind {
        match self {
            Self::Proceed => VerdictKind::Proceed,
            Self::Mutate(_) => VerdictKind::Mutate,
            Self::Skip(_) => VerdictKind::Skip,
            Self::RequireApproval(_) => VerdictKind::RequireApproval,
            Self::Block(_) => VerdictKind::Block,
        }
    }
}

/// A change of a payload; see `cairn/event/v1/hook.proto`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // Described in the contract.
pub enum Mutation {
    Arguments(String),
    Output(String),
    Text(String),
    Ops(Vec<Op>),
    Plan(PlanDraft),
    Prompt(String),
}

impl Mutation {
    /// What it changes.
    pub const fn changes(&self) -> Changes {
        match self {
            Self::Arguments(_) => Changes::Arguments,
            Self::Output(_) => Changes::Output,
            Self::Text(_) => Changes::Text,
            Self::Ops(_) => Changes::Ops,
            Self::Plan(_) => Changes::Plan,
            Self::Prompt(_) => Changes::Prompt,
        }
    }

    /// The changes of a conversation; none if it changes something else.
    pub fn ops(&self) -> Option<&[Op]> {
        match self {
            Self::Ops(ops) => Some(ops),
            _ => None,
        }
    }

    /// About as many bytes as it takes in the journal.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Arguments(text) | Self::Output(text) | Self::Text(text) | Self::Prompt(text) => {
                text.len()
            }
            Self::Ops(ops) => ops.iter().map(bytes_of).sum(),
            Self::Plan(plan) => serde_json::to_vec(plan).map_or(usize::MAX, |json| json.len()),
        }
    }
}

/// Bytes of a change of a conversation.
fn bytes_of(op: &Op) -> usize {
    let of = |message: &Message| usize::try_from(message.bytes()).unwrap_or(usize::MAX);
    match op {
        Op::Append(message) | Op::Update { message, .. } | Op::Insert { message, .. } => {
            of(message)
        }
        Op::Notice(text) => text.len(),
        _ => 0,
    }
}

/// Why a hook did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Described in the contract.
pub enum HookFailure {
    Late,
    Wrong,
    Unreachable,
    Missing,
}

impl HookFailure {
    /// For people, where the hook says nothing.
    const fn words(self) -> &'static str {
        match self {
            Self::Late => "the hook did not answer in time",
            Self::Wrong => "the answer of the hook is wrong",
            Self::Unreachable => "the hook cannot be reached",
            Self::Missing => "the hook is not configured any more, or differently",
        }
    }
}

/// What one hook answered, as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Its name.
    pub hook: String,
    /// What counts of the answer.
    pub verdict: VerdictKind,
    /// Its words, or why it failed.
    pub reason: String,
    /// Why there is no answer; none if there is one.
    pub failure: Option<HookFailure>,
    /// With all retries.
    pub duration_ms: u64,
}

/// What follows from all answers to one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Position of the call of PreToolCall; else 0.
    pub index: u32,
    /// The strictest answer.
    pub verdict: VerdictKind,
    /// The first hook that gave it; empty for Proceed.
    pub hook: String,
    /// The reason of a Block or of a required approval, or the result of a Skip.
    pub text: String,
    /// What the hooks changed.
    pub mutation: Option<Mutation>,
    /// In the order of asking.
    pub answers: Vec<Answered>,
}

impl Outcome {
    /// Without an answer yet.
    pub fn new(index: u32) -> Self {
        Self {
            index,
            verdict: VerdictKind::Proceed,
            hook: String::new(),
            text: String::new(),
            mutation: None,
            answers: Vec::new(),
        }
    }

    /// Takes the answer of the next hook. The strictest counts, of equals the first; changes add up, and the next hook is
    /// asked about the payload with them ([`Question::with`]). Returns whether further hooks are asked: not after a Block.
    pub fn take(
        &mut self,
        hook: &str,
        verdict: Verdict,
        failure: Option<HookFailure>,
        duration_ms: u64,
    ) -> bool {
        let kind = verdict.kind();
        let text = match verdict {
            Verdict::Proceed => String::new(),
            Verdict::Mutate(mutation) => {
                self.change(mutation);
                String::new()
            }
            Verdict::Skip(text) | Verdict::RequireApproval(text) | Verdict::Block(text) => text,
        };
        let text = match failure {
            Some(failure) if kind == VerdictKind::Block && text.is_empty() => {
                failure.words().to_owned()
            }
            _ => text,
        };
        let reason = match (failure, kind) {
            (Some(failure), _) if text.is_empty() => failure.words().to_owned(),
            // The result stands beside it.
            (_, VerdictKind::Skip) => String::new(),
            _ => text.clone(),
        };
        self.answers.push(Answered {
            hook: hook.to_owned(),
            verdict: kind,
            reason,
            failure,
            duration_ms,
        });
        if kind > self.verdict {
            self.verdict = kind;
            hook.clone_into(&mut self.hook);
            self.text = text;
        }
        kind != VerdictKind::Block
    }

    /// Each hook changes what those before it left.
    fn change(&mut self, mutation: Mutation) {
        match (&mut self.mutation, mutation) {
            (Some(Mutation::Ops(known)), Mutation::Ops(more)) => known.extend(more),
            (known, mutation) => *known = Some(mutation),
        }
    }

    /// A person is asked before the run or the step begins.
    pub(crate) fn asks_about(&self, point: Point) -> bool {
        let is_start = matches!(point, Point::OnRunStart | Point::OnStepStart);
        is_start && self.verdict == VerdictKind::RequireApproval
    }

    /// It is one that the point takes.
    pub(crate) fn fits(&self, point: Point) -> bool {
        let changes = self.mutation.as_ref().map(Mutation::changes);
        point.takes(self.verdict) && changes.is_none_or(|changes| changes == point.changes())
    }

    /// What was changed cannot count. It blocks for this reason, unless it did already.
    pub(crate) fn refuse(&mut self, reason: &str) {
        self.mutation = None;
        if self.verdict != VerdictKind::Block {
            self.verdict = VerdictKind::Block;
            reason.clone_into(&mut self.text);
        }
    }

    /// Continue, with nothing changed.
    pub fn is_proceed(&self) -> bool {
        self.verdict == VerdictKind::Proceed && self.mutation.is_none()
    }

    /// At [`Point::PreToolCall`]: the arguments that are sent in place of the model's. None if the model's are sent, or
    /// the call is not made.
    pub fn sent(&self) -> Option<&str> {
        match (self.verdict, &self.mutation) {
            (VerdictKind::Skip | VerdictKind::Block, _) => None,
            (_, Some(Mutation::Arguments(arguments))) => Some(arguments),
            _ => None,
        }
    }
}

/// Why an answer is wrong at a point, in words for the operator; none if it is right. Checks the kind, the kind of the
/// change, the sizes, that arguments are a JSON object, that a plan can be accepted, and that ops are among Append
/// (user), Update, Insert, Remove and Notice and fit the conversation. `next` is the conversation as the next request
/// has it, with the changes of the hooks before; only ops need it.
pub fn fault_of(point: Point, verdict: &Verdict, next: Option<&Conversation>) -> Option<String> {
    let (kind, name) = (verdict.kind(), point.name());
    if !point.takes(kind) {
        let taken = VerdictKind::ALL.into_iter().filter(|it| point.takes(*it));
        let taken: Vec<_> = taken.map(VerdictKind::name).collect();
        let (kind, taken) = (kind.name(), taken.join(", "));
        return Some(format!(
            "{name} does not take the answer {kind}; it takes: {taken}"
        ));
    }
    let (what, bytes, most) = match verdict {
        Verdict::Proceed => return None,
        Verdict::Mutate(mutation) => return fault_of_change(point, mutation, next),
        Verdict::Skip(result) => ("result", result.len(), MAX_ANSWER),
        Verdict::RequireApproval(reason) | Verdict::Block(reason) => {
            ("reason", reason.len(), MAX_REASON)
        }
    };
    too_long(what, bytes, most)
}

fn fault_of_change(
    point: Point,
    mutation: &Mutation,
    next: Option<&Conversation>,
) -> Option<String> {
    let (changes, taken) = (mutation.changes(), point.changes());
    if changes != taken {
        let word = |changes: Changes| format!("{changes:?}").to_lowercase();
        let (name, changes, taken) = (point.name(), word(changes), word(taken));
        return Some(format!(
            "{name} does not change the {changes}; it changes the {taken}"
        ));
    }
    let fault = too_long("change", mutation.bytes(), MAX_ANSWER);
    fault.or_else(|| match mutation {
        Mutation::Arguments(json) => {
            let read = serde_json::from_str::<Map<String, Value>>(json);
            let error = read.err()?;
            Some(format!("the arguments are no JSON object: {error}"))
        }
        Mutation::Plan(plan) => Some(Plan::accept(plan).err()?.located().problem),
        Mutation::Ops(ops) => fault_of_ops(ops, next),
        Mutation::Prompt(prompt) if prompt.trim().is_empty() => {
            Some("the prompt is empty".to_owned())
        }
        Mutation::Prompt(prompt) => too_long("prompt", prompt.len(), MAX_COMPACTION_TEXT),
        Mutation::Output(_) | Mutation::Text(_) => None,
    })
}

fn too_long(what: &str, bytes: usize, most: usize) -> Option<String> {
    (bytes > most).then(|| format!("the {what} has {bytes} bytes; at most {most} are allowed"))
}

fn fault_of_ops(ops: &[Op], next: Option<&Conversation>) -> Option<String> {
    if ops.is_empty() {
        return Some("the list of changes is empty".to_owned());
    }
    let mut next = next.cloned().unwrap_or_default();
    ops.iter().find_map(|op| {
        let is_allowed = match op {
            Op::Append(message) | Op::Insert { message, .. } => message.role == Role::User,
            // That there is such a message is checked below.
            Op::Update { number, message } => {
                let mut behind = next.behind.iter();
                let before = behind.find(|entry| entry.number == *number);
                before.is_none_or(|entry| entry.message.role == message.role)
            }
            Op::Remove { .. } | Op::Notice(_) => true,
            _ => false,
        };
        if !is_allowed {
            let allowed = "a hook appends and inserts messages of the user, replaces messages by such of the same \
                           role, removes messages and adds notices";
            return Some(allowed.to_owned());
        }
        let fault = next.apply(op.clone()).err()?;
        Some(format!("{fault}; a hook changes messages of the turn or the attempt only"))
    })
}

/// Whether ops of a hook fit a conversation as the next request has it.
pub(crate) fn fit(next: &Conversation, ops: &[Op]) -> Applied {
    let mut next = next.clone();
    ops.iter().cloned().try_for_each(|op| next.apply(op))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::StepDraft;

    fn arguments(json: &str) -> Verdict {
        Verdict::Mutate(Mutation::Arguments(json.to_owned()))
    }

    fn ops(ops: Vec<Op>) -> Verdict {
        Verdict::Mutate(Mutation::Ops(ops))
    }

    #[test]
    fn the_first_of_the_strictest_answers_counts() {
        let mut outcome = Outcome::new(2);
        assert!(outcome.take("a", Verdict::Proceed, None, 1));
        assert!(outcome.is_proceed());
        assert!(outcome.take("b", arguments("{}"), None, 1));
        assert_eq!(
            (outcome.verdict, &*outcome.hook),
            (VerdictKind::Mutate, "b")
        );
        let asks = |reason: &str| Verdict::RequireApproval(reason.to_owned());
        assert!(outcome.take("c", asks("one"), None, 1));
        assert!(outcome.take("d", asks("two"), None, 1));
        assert!(outcome.take("e", Verdict::Skip("skipped".to_owned()), None, 1));
        assert_eq!((&*outcome.hook, &*outcome.text), ("c", "one"));
        let late = Some(HookFailure::Late);
        assert!(!outcome.take("f", Verdict::Block(String::new()), late, 5_000));
        assert_eq!((outcome.verdict, &*outcome.hook), (VerdictKind::Block, "f"));
        assert_eq!(outcome.mutation, Some(Mutation::Arguments("{}".to_owned())));
        let reasons: Vec<_> = outcome.answers.iter().map(|it| &*it.reason).collect();
        let late = "the hook did not answer in time";
        assert_eq!(reasons, ["", "", "one", "two", "", late]);
    }

    #[test]
    fn changes_of_a_conversation_add_up_and_others_replace() {
        let mut outcome = Outcome::new(0);
        for text in ["one", "two"] {
            outcome.take("a", ops(vec![Op::Notice(text.to_owned())]), None, 1);
        }
        let all = outcome.mutation.as_ref().and_then(Mutation::ops);
        assert_eq!(all.map(<[Op]>::len), Some(2));
        let mut outcome = Outcome::new(0);
        for json in ["{}", r#"{"a":1}"#] {
            outcome.take("a", arguments(json), None, 1);
        }
        assert_eq!(outcome.sent(), Some(r#"{"a":1}"#));
    }

    /// The table of the points, as the contract has it.
    #[test]
    fn each_point_takes_what_the_contract_says() {
        use VerdictKind::{Block, Mutate, Proceed, RequireApproval, Skip};
        for &point in Point::ALL {
            let more: &[VerdictKind] = match point {
                Point::OnRunStart => &[RequireApproval],
                Point::OnStepStart => &[Skip, RequireApproval],
                Point::OnPlanProposed => &[Mutate, RequireApproval],
                Point::PreRequest | Point::OnCompaction => &[Mutate, Skip],
                Point::PostRequest | Point::PostToolCall => &[Mutate],
                Point::PreToolCall => &[Mutate, Skip, RequireApproval],
                _ => &[],
            };
            let observes = matches!(point, Point::OnRunEnd | Point::OnError);
            assert_eq!(point.observes(), observes, "{point:?}");
            for kind in VerdictKind::ALL {
                let expected = match kind {
                    Proceed => true,
                    Block => !observes,
                    kind => more.contains(&kind),
                };
                assert_eq!(point.takes(kind), expected, "{point:?} {kind:?}");
            }
        }
    }

    fn a_step() -> StepDraft {
        StepDraft {
            description: "do it".to_owned(),
            ..StepDraft::default()
        }
    }

    fn plan(steps: Vec<StepDraft>) -> Verdict {
        let plan = PlanDraft {
            steps,
            ..PlanDraft::default()
        };
        Verdict::Mutate(Mutation::Plan(plan))
    }

    #[test]
    fn a_wrong_answer_is_named() {
        let mut next = Conversation::default();
        next.append(Message::user("hello"));
        next.append(Message::assistant("hi", Vec::new()));
        let update = |number, message| Op::Update { number, message };
        let user = || Message::user("more");
        let right = [
            (Point::PreToolCall, arguments(r#"{"path":"a"}"#)),
            (Point::OnPlanProposed, plan(vec![a_step()])),
            (
                Point::PreRequest,
                ops(vec![Op::Append(user()), update(1, user())]),
            ),
            (Point::PreRequest, ops(vec![Op::Remove { number: 2 }])),
            (Point::OnRunEnd, Verdict::Proceed),
        ];
        for (point, verdict) in right {
            assert_eq!(fault_of(point, &verdict, Some(&next)), None, "{verdict:?}");
        }
        let long = "x".repeat(MAX_REASON + 1);
        let wrong = [
            (Point::OnError, Verdict::Block(String::new())),
            (Point::OnTurnEnd, Verdict::Skip(String::new())),
            (Point::OnTurnStart, Verdict::Block(long)),
            (Point::PreToolCall, arguments("[1]")),
            (Point::PostToolCall, arguments("{}")),
            (Point::OnPlanProposed, plan(Vec::new())),
            (Point::PreRequest, ops(Vec::new())),
            (Point::PreRequest, ops(vec![Op::Clear])),
            (Point::PreRequest, ops(vec![Op::Remove { number: 9 }])),
            (Point::PreRequest, ops(vec![update(2, user())])),
            (
                Point::PreRequest,
                ops(vec![Op::Remove { number: 1 }, Op::Remove { number: 1 }]),
            ),
            (
                Point::PreRequest,
                ops(vec![Op::Append(Message::assistant("hi", Vec::new()))]),
            ),
            (
                Point::PostToolCall,
                Verdict::Mutate(Mutation::Output("x".repeat(MAX_ANSWER + 1))),
            ),
            (
                Point::OnCompaction,
                Verdict::Mutate(Mutation::Prompt(" ".to_owned())),
            ),
        ];
        for (point, verdict) in wrong {
            let fault = fault_of(point, &verdict, Some(&next));
            assert!(fault.is_some(), "{point:?} takes {verdict:?}");
        }
    }

    #[test]
    fn a_hook_listens_to_the_tools_that_it_names() {
        let mut hook = PinnedHook {
            name: "guard".to_owned(),
            digest: String::new(),
            points: [Point::PreToolCall].into_iter().collect(),
            tools: Vec::new(),
        };
        assert!(hook.listens(Point::PreToolCall, Some("shell_exec")));
        assert!(!hook.listens(Point::PostToolCall, Some("shell_exec")));
        hook.tools = vec!["write_*".to_owned()];
        assert!(hook.listens(Point::PreToolCall, Some("write_file")));
        assert!(!hook.listens(Point::PreToolCall, Some("shell_exec")));
        assert!(hook.listens(Point::PreToolCall, None));
    }
}
