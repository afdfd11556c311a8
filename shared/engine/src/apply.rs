//! `apply(state, event) → state`: what each event changes. The only code that changes a session.

mod call;
mod fork;
mod plan;
mod run;
mod step;

use crate::event::{Event, EventKind};
use crate::state::Session;
use crate::transitions::IllegalTransition;

impl Session {
    /// Folds the event numbered `seq`.
    ///
    /// Only a received command makes use of the number, so that an owner may apply its own events
    /// before the store has numbered them.
    ///
    /// # Errors
    /// The event does not fit; the state is then of no use any more.
    pub fn apply(&mut self, seq: u64, event: &Event) -> Result<(), IllegalTransition> {
        let at = event.at;
        self.fold(seq, event)?;
        self.seq += 1;
        self.updated_at = self.updated_at.max(at);
        if !event.kind.is_of_others() {
            self.worked_at = self.worked_at.max(at);
            if let Some(run) = self.runs.last_mut() {
                run.count_time(at);
                run.ask_budget();
            }
        }
        Ok(())
    }

    fn fold(&mut self, seq: u64, event: &Event) -> Result<(), IllegalTransition> {
        use EventKind as E;
        let at = event.at;
        match &event.kind {
            E::SessionCreated { title, .. } => self.apply_created(title, at)?,
            E::CommandReceived { command, .. } => {
                self.commands.insert(seq, command.clone());
            }
            E::CommandRefused { command_seq, .. } => self.answer_command(*command_seq),
            E::MemorySet { key, value } => {
                self.memory.insert(key.clone(), value.clone());
            }
            E::MemoryRemoved { key } => {
                self.memory.remove(key);
            }
            E::MemoryCleared => self.memory.clear(),
            E::ForkedFrom {
                session,
                at_seq,
                title,
                ..
            } => {
                self.become_fork(session, *at_seq, title, at);
            }
            E::RevisionRequested { .. }
            | E::PlanProposed { .. }
            | E::RevisionFailed { .. }
            | E::PlanApplied { .. } => self.apply_to_plan(&event.kind)?,
            E::RunStarted { .. }
            | E::BudgetExhausted { .. }
            | E::RunPaused { .. }
            | E::RunWaiting { .. }
            | E::RunResumed { .. }
            | E::RunTakenOver { .. }
            | E::BudgetRaised { .. }
            | E::BudgetRefused { .. }
            | E::RunCompleted { .. }
            | E::RunFailed { .. }
            | E::RunCancelled { .. } => self.apply_to_run(&event.kind, at)?,
            E::StepStarted { .. }
            | E::AttemptContinued { .. }
            | E::StepCompleted { .. }
            | E::StepFailed { .. }
            | E::StepSkipped { .. } => self.apply_to_step(&event.kind, at)?,
            E::SubGoalAdded { .. }
            | E::SubGoalFocused { .. }
            | E::SubGoalCompleted { .. }
            | E::SubGoalDropped { .. }
            | E::ScratchpadWritten { .. } => self.apply_to_attempt(&event.kind)?,
            E::ReplyReceived(_)
            | E::CallIntended { .. }
            | E::CallHeld { .. }
            | E::CallFinished(_)
            | E::CallInDoubt { .. }
            | E::ApprovalRequested { .. }
            | E::QuestionAsked { .. }
            | E::Decided { .. }
            | E::CallSettled { .. } => self.apply_to_call(&event.kind)?,
        }
        Ok(())
    }

    /// Takes events of others into a state that already holds `own` events which the store has
    /// numbered after them.
    ///
    /// Others write session memory and commands only. Neither makes an event of the owner illegal,
    /// and no event of the owner but those about session memory depends on their order, so folding
    /// them late and the owner's memory events once more gives what folding in order gives.
    ///
    /// # Errors
    /// An event does not fit.
    pub fn rebase(
        &mut self,
        others: &[(u64, Event)],
        own: &[Event],
    ) -> Result<(), IllegalTransition> {
        for (seq, event) in others {
            self.apply(*seq, event)?;
        }
        for event in own.iter().filter(|event| event.kind.is_memory()) {
            let seq = self.seq;
            self.apply(seq, event)?;
            self.seq = seq;
        }
        Ok(())
    }

    fn apply_created(&mut self, title: &str, at: u64) -> Result<(), IllegalTransition> {
        if self.seq != 0 {
            return Err(IllegalTransition::not_allowed(
                "session", "created", "created",
            ));
        }
        self.title = title.to_owned();
        self.created_at = at;
        Ok(())
    }

    /// Commands are answered in the order in which they were received.
    fn answer_command(&mut self, seq: u64) {
        if self.commands.remove(&seq).is_some() {
            self.handled_through = self.handled_through.max(seq);
        }
    }
}

impl EventKind {
    /// It changes session memory.
    pub fn is_memory(&self) -> bool {
        matches!(
            self,
            Self::MemorySet { .. } | Self::MemoryRemoved { .. } | Self::MemoryCleared
        )
    }

    /// Others than the owner may have written it.
    fn is_of_others(&self) -> bool {
        self.is_memory() || matches!(self, Self::CommandReceived { .. })
    }
}
