//! A turn: a run of one step without a plan, which continues a context.

use super::{Call, Note, PlanState, Rest, Run, RunStatus, SeenFiles, Session, Step, Switched};
use crate::command::{Command, CompactContext, StartRun, SubmitTurn, TurnOptions, WhenFull};
use crate::conversation::{Conversation, Op};
use crate::event::{
    AgentUse, AttemptRef, NotesFrame, OpenCall, PlanApplied, RunStarted, StartedTurn,
};
use crate::message::{Message, Usage};
use crate::plan::{Order, PlanDraft, StepDraft};
use crate::pool::Grants;
use crate::principal::Principal;
use crate::text::headline;
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// State tools that manage a step of a plan.
pub(crate) const OF_STEPS: [&str; 2] = ["step", "read_progress"];

/// The state tool that reads on in results of other tools, so it is offered wherever those are.
pub(crate) const READ_RESULT: &str = "read_result";

/// The longest name that a turn has in lists, in characters.
const MAX_NAME: usize = 120;

/// What makes a run a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The context that it continues.
    pub context: String,
    /// What the person says; none once the attempt has it, or if nothing is said.
    pub message: Option<Message>,
    /// How the model is asked.
    pub options: TurnOptions,
    /// The words around its notes, if it wrote some.
    pub notes_frame: Option<NotesFrame>,
    /// What it is for.
    pub purpose: Purpose,
    /// Its first request tells the model that messages before it were compacted.
    pub tells_compaction: bool,
    /// The agent of its context before a switch, of which its first request tells the model.
    pub switched: Option<Switched>,
    /// What its step has left, once that has ended; none if the turn does not keep its work.
    pub rest: Option<Box<Rest>>,
    /// The files that its model has seen since it began.
    pub files: SeenFiles,
}

/// What a turn is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// The model replies to a person.
    Reply,
    /// The context ends with it.
    Conclude,
    /// Older messages of the context give way to a summary. It adds nothing, and counts as no turn.
    Compact(CompactContext),
}

/// A turn that begins once the active run has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedTurn {
    /// The seq of its command.
    pub number: u64,
    /// Who submitted it.
    pub principal: Option<Principal>,
    /// What was asked for.
    pub turn: SubmitTurn,
}

impl Turn {
    /// What lists show of it, on one line.
    pub(super) fn name(&self) -> String {
        let said = self.message.as_ref().map(Message::said);
        headline(&said.unwrap_or_default(), MAX_NAME)
    }

    /// Builds the turn that RunStarted begins, from its command or from the queue.
    pub(super) fn started(
        started: &StartedTurn,
        agent: Option<&AgentUse>,
        answers: u64,
        session: &mut Session,
    ) -> Result<Self, IllegalTransition> {
        let command = session.commands.get(&answers).map(|it| &it.command);
        let (submitted, purpose) = match (session.submitted(started, answers), command) {
            (Some(turn), _) => (turn.clone(), Purpose::Reply),
            // Its message is written as a change of the conversation.
            (None, Some(Command::DestroyContext(_))) => {
                (SubmitTurn::conclusion(), Purpose::Conclude)
            }
            (None, Some(Command::CompactContext(compact))) => {
                (SubmitTurn::default(), Purpose::Compact(compact.clone()))
            }
            _ => return Err(IllegalTransition::missing("the command of a turn")),
        };
        session
            .queued_turns
            .retain(|it| it.number != started.queued);
        let window = session.agent_window(agent);
        let mut context = session.contexts.get_mut(&started.context);
        if let Some(context) = &mut context {
            context.set_agent(agent.cloned(), window);
        }
        // The model that writes a summary is told nothing.
        let context = context.filter(|_| !matches!(purpose, Purpose::Compact(_)));
        let untold = context.map(|context| {
            let compaction = std::mem::take(&mut context.untold_compaction);
            (compaction, context.switched.take())
        });
        let (tells_compaction, switched) = untold.unwrap_or_default();
        Ok(Self {
            context: started.context.clone(),
            message: submitted.message,
            options: submitted.options,
            notes_frame: None,
            purpose,
            tells_compaction,
            switched,
            rest: None,
            files: SeenFiles::default(),
        })
    }

    /// The only step of a turn, as a plan that nobody made. No event has it.
    pub fn draft() -> PlanDraft {
        let step = StepDraft {
            title: "turn".to_owned(),
            description: "turn".to_owned(),
            ..StepDraft::default()
        };
        PlanDraft {
            order: Order::Chain,
            steps: vec![step],
        }
    }

    /// The same in force.
    pub(super) fn plan(run: u32) -> Result<PlanState, IllegalTransition> {
        let applied = PlanApplied {
            run,
            revision: 1,
            plan: Self::draft(),
            numbers: Vec::new(),
            request: 0,
            usage: Usage::default(),
            duration_ms: 0,
            stops: 0,
        };
        PlanState::in_force(None, &applied)
    }
}

impl Session {
    /// What a turn that begins was submitted as. None for one in which a context ends or is compacted.
    /// `answers` is the event's, and the state is the one before the event.
    pub fn submitted(&self, started: &StartedTurn, answers: u64) -> Option<&SubmitTurn> {
        let number = started.command(answers);
        let mut queued = self.queued_turns.iter();
        match queued.find(|it| it.number == number) {
            Some(queued) => Some(&queued.turn),
            None => match &self.commands.get(&number)?.command {
                Command::SubmitTurn(turn) => Some(turn),
                _ => None,
            },
        }
    }

    /// A person who can answer questions follows the run that begins. `answers` is the event's, and the state is the
    /// one before the event.
    pub(super) fn is_followed(&self, started: &RunStarted, answers: u64) -> bool {
        if let Some(turn) = &started.turn {
            let submitted = self.submitted(turn, answers);
            return submitted.is_some_and(|turn| turn.answers_questions);
        }
        let start = self.start_command(answers);
        start.is_some_and(|start| start.answers_questions)
    }

    /// The command that starts a run, by the seq that it was received under; none if it is answered or is another.
    pub(super) fn start_command(&self, seq: u64) -> Option<&StartRun> {
        match &self.commands.get(&seq)?.command {
            Command::StartRun(start) => Some(start),
            _ => None,
        }
    }

    /// The turn that an attempt is; none for a step of a plan.
    pub fn turn(&self, attempt: AttemptRef) -> Option<&Turn> {
        self.run(attempt.run)?.turn.as_ref()
    }

    /// What happens when the next request of an attempt becomes too long for its model: as its turn says, else
    /// its context, else its agent.
    pub fn when_full(&self, attempt: AttemptRef) -> WhenFull {
        let turn = self.turn(attempt);
        let of_turn = turn.and_then(|turn| turn.options.when_full);
        let context = turn.and_then(|turn| self.contexts.get(&turn.context));
        let of_context = context.and_then(|context| context.when_full);
        let own = of_turn.or(of_context);
        own.or_else(|| self.agent_when_full(attempt))
            .unwrap_or_default()
    }

    /// The attempt may call the tool, if there is one of that name: its agent has it, by its definition or by what
    /// the operator granted. A turn has no step to
    /// manage, and its request may name the tools that it offers.
    pub fn offers(&self, attempt: AttemptRef, tool: &str, grants: &Grants) -> bool {
        self.agent_offers(attempt, tool, grants) && self.turn_offers(attempt, tool)
    }

    fn turn_offers(&self, attempt: AttemptRef, tool: &str) -> bool {
        let Some(turn) = self.turn(attempt) else {
            return true;
        };
        let offered = turn.options.tools.as_ref();
        let makes_calls = |run: &Run| run.limits.max_tool_turns > 0;
        let is_among = |offered: &Vec<String>| {
            let goes_with_others = tool == READ_RESULT && !offered.is_empty();
            offered.iter().any(|name| name == tool)
                || (goes_with_others && self.run(attempt.run).is_some_and(makes_calls))
        };
        !OF_STEPS.contains(&tool) && offered.is_none_or(is_among)
    }

    /// The turn of a context that has not ended.
    pub fn active_turn_of(&self, context: &str) -> Option<&Run> {
        let is_of_it = |run: &&Run| {
            run.turn
                .as_ref()
                .is_some_and(|turn| turn.context == context)
        };
        self.active_run().filter(is_of_it)
    }

    /// All that the model of an attempt is sent through its last reply.
    pub fn conversation(&self, name: AttemptRef) -> Option<Conversation> {
        let attempt = self.attempt(name)?;
        match self.turn(name) {
            None => Some(attempt.conversation.clone()),
            Some(turn) => {
                let summed_up = attempt.summary.as_ref().map(|task| &task.messages);
                Some(self.contexts.get(&turn.context)?.of_turn(summed_up))
            }
        }
    }

    /// What was said to and by an attempt since it began, as far as it is known: results of the last reply's
    /// calls that have ended, and changes that no reply has seen, included.
    pub fn said(&self, name: AttemptRef) -> Vec<Arc<Message>> {
        let known = self.attempt(name).zip(self.conversation_of(name));
        let Some((attempt, conversation)) = known else {
            return Vec::new();
        };
        let mut said = Conversation {
            behind: conversation.behind.clone(),
            last_number: conversation.last_number,
            ..Conversation::default()
        };
        let results = attempt.calls.iter().filter_map(Call::result);
        let results = results.map(Op::Append);
        for op in results.chain(attempt.waiting_ops.iter().cloned()) {
            // One that does not fit is refused when it takes effect.
            let _ = said.apply(op);
        }
        said.behind.into_iter().map(|entry| entry.message).collect()
    }

    /// The conversation that an attempt works in, behind its mark.
    pub(crate) fn conversation_of(&self, name: AttemptRef) -> Option<&Conversation> {
        match self.turn(name) {
            None => Some(&self.attempt(name)?.conversation),
            Some(turn) => Some(&self.contexts.get(&turn.context)?.conversation),
        }
    }

    pub(super) fn conversation_mut(
        &mut self,
        name: AttemptRef,
    ) -> Result<&mut Conversation, IllegalTransition> {
        match self.turn(name).map(|turn| turn.context.clone()) {
            None => Ok(&mut self.attempt_mut(name)?.conversation),
            Some(context) => Ok(&mut self.context_mut(&context)?.conversation),
        }
    }

    /// The attempt of a turn has begun: it has the person's message, and goes on with the notes of its
    /// context.
    pub(super) fn begin_turn(&mut self, attempt: AttemptRef, tick: u64) -> Applied {
        let Some(turn) = &mut self.run_mut(attempt.run)?.turn else {
            return Ok(());
        };
        let (message, name) = (turn.message.take(), turn.context.clone());
        let context = self.context_mut(&name)?;
        let text = context.notes.clone();
        if let Some(message) = message {
            context.conversation.append(message);
        }
        let notes = (!text.is_empty()).then_some(Note { tick, text });
        self.step_mut(attempt)?.notes = notes.into_iter().collect();
        Ok(())
    }

    /// The number of the last message of a turn that has not ended; 0 without any, and for a run with a plan.
    pub(crate) fn last_of_turn(&self, run: u32) -> u32 {
        let turn = self.run(run).and_then(|run| run.turn.as_ref());
        let context = turn.and_then(|turn| self.contexts.get(&turn.context));
        let last = context.and_then(|context| context.conversation.behind.last());
        last.map_or(0, |last| last.number)
    }

    /// What follows for a context from the end of a run. Of a turn the messages through `kept_through` stay, and
    /// what its step has left follows them, with `results` for the calls that had none. If the turn keeps nothing,
    /// the next one is to know the calls with side effects. Of a compaction nothing follows: what it replaced is
    /// replaced.
    pub(super) fn note_end(
        &mut self,
        number: u32,
        kept_through: u32,
        results: &[OpenCall],
    ) -> Applied {
        self.note_hooks_of_end(number);
        let run = self.run_mut(number)?;
        let is_completed = run.status == RunStatus::Completed;
        let Some(turn) = &mut run.turn else {
            if is_completed {
                let (goal, answer) = (run.goal.clone(), run.end.answer.clone());
                let active = self.active_context.clone();
                self.context_mut(&active)?.take_in_run(&goal, &answer)?;
            }
            return Ok(());
        };
        let (name, frame) = (turn.context.clone(), turn.notes_frame.take());
        let is_compaction = matches!(turn.purpose, Purpose::Compact(_));
        let (told, switched) = (turn.tells_compaction, turn.switched.take());
        let is_kept = is_completed || (kept_through > 0 && turn.keeps_work());
        let files = std::mem::take(&mut turn.files);
        let rest = turn.rest.take().filter(|_| kept_through > 0);
        let further = rest
            .map(|rest| *rest)
            .unwrap_or_default()
            .messages(results)?;
        let (notes, effects) = (run.notes(), run.effects());
        run.forget_turn();
        let context = self.context_mut(&name)?;
        context.end_turn(kept_through, further)?;
        match is_kept {
            _ if is_compaction => {}
            true => {
                context.keep_turn(notes, frame, files);
                if is_completed {
                    context.complete_turn();
                }
            }
            false => {
                context.lose(effects);
                context.untold_compaction |= told;
                context.tell_switch_again(switched);
            }
        }
        Ok(())
    }
}

impl Run {
    /// Of a turn.
    fn notes(&self) -> String {
        let step = self.plan.as_ref().and_then(|plan| plan.steps.first());
        step.map(Step::notes).unwrap_or_default()
    }

    fn effects(&self) -> Vec<super::EffectfulCall> {
        let steps = self.plan.iter().flat_map(|plan| &plan.steps);
        steps
            .flat_map(|step| step.effects.iter().cloned())
            .collect()
    }

    /// A turn that has ended costs little: what was said is in its context.
    fn forget_turn(&mut self) {
        self.plan = None;
        self.trace_parent.clear();
        if let Some(turn) = &mut self.turn {
            turn.message = None;
            turn.options = TurnOptions::default();
        }
    }
}
