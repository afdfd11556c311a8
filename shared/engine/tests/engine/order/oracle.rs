//! What the events of a run say about its order, without the engine: a plan, closures and identities of
//! its own. Each transition is held against them.

use crate::world::World;
use cairn_engine::context::of_step;
use cairn_engine::event::{self, Event, EventKind};
use cairn_engine::key::StepKey;
use cairn_engine::plan::{Order, PlanDraft, StepDraft};
use cairn_engine::session::{Place, Session, StepNo, StepStatus};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Pending,
    Running,
    Completed,
    Failed,
    /// By a person.
    Skipped,
    /// By another plan, or the end of the run.
    Stopped,
}

#[derive(Debug, Clone)]
struct Known {
    /// What the plan says of it.
    words: String,
    state: State,
    summary: String,
    /// The notes with their places in the journal.
    notes: Vec<(usize, String)>,
    /// Its identity when it began.
    saw: Option<usize>,
}

/// What the events say of the run.
#[derive(Default)]
pub(super) struct Oracle {
    seen: usize,
    shadow: Session,
    steps: BTreeMap<StepNo, Known>,
    /// The plan in force: numbers with those that they depend on.
    plan: Vec<(StepNo, Vec<StepNo>)>,
    /// Numbers for identities: what a step says, and the identities before it.
    identities: RefCell<HashMap<(String, Vec<usize>), usize>>,
    /// Keys by the identities that they stand for.
    keys: HashMap<usize, StepKey>,
}

impl Oracle {
    pub(super) fn watch(&mut self, world: &World) {
        for event in &world.journal[self.seen..] {
            self.seen += 1;
            let before = self.steps.clone();
            self.take(event);
            self.shadow.apply(self.seen as u64, event).unwrap();
            match &event.kind {
                EventKind::StepStarted(event::StepStarted { attempt, .. }) => {
                    self.check_start(attempt.step);
                    let text =
                        of_step(self.shadow.run(attempt.run).unwrap(), attempt.step).unwrap();
                    self.check_sight(attempt.step, &text);
                }
                EventKind::PlanApplied(_) => self.check_reuse(&before),
                _ => {}
            }
        }
        assert_eq!(self.shadow, world.session);
        self.check_ready();
        self.check_keys();
    }

    fn take(&mut self, event: &Event) {
        use EventKind as E;
        let seen = self.seen;
        match &event.kind {
            E::PlanApplied(event::PlanApplied { plan, numbers, .. }) => {
                self.take_plan(plan, numbers)
            }
            E::StepStarted(event::StepStarted { attempt, .. }) => {
                let identity = self.identity(attempt.step);
                let step = self.of(attempt.step);
                (step.state, step.saw) = (State::Running, Some(identity));
            }
            E::StepCompleted(event::StepCompleted {
                attempt, summary, ..
            }) => {
                let step = self.of(attempt.step);
                step.state = State::Completed;
                step.summary.clone_from(summary);
            }
            E::StepFailed(event::StepFailed { attempt, .. }) => {
                self.of(attempt.step).state = State::Failed
            }
            E::StepSkipped(event::StepSkipped {
                step, by_person, ..
            }) => {
                self.of(*step).state = [State::Stopped, State::Skipped][usize::from(*by_person)];
            }
            E::ScratchpadWritten(event::ScratchpadWritten {
                attempt,
                text,
                replaces,
                ..
            }) => {
                let notes = &mut self.of(attempt.step).notes;
                notes.retain(|_| !replaces);
                notes.push((seen, text.clone()));
            }
            _ => {}
        }
    }

    fn of(&mut self, number: StepNo) -> &mut Known {
        self.steps.get_mut(&number).unwrap()
    }

    fn take_plan(&mut self, plan: &PlanDraft, numbers: &[StepNo]) {
        let default: Vec<StepNo> = StepNo::all().take(plan.steps.len()).collect();
        let numbers = [numbers, &default][usize::from(numbers.is_empty())];
        let id = |(step, place): (&StepDraft, usize)| match step.id.as_str() {
            "" => place.to_string(),
            id => id.to_owned(),
        };
        let ids: Vec<String> = plan.steps.iter().zip(1..).map(id).collect();
        let number_of = |id: &String| numbers[ids.iter().position(|known| known == id).unwrap()];
        self.plan.clear();
        for (place, step) in plan.steps.iter().enumerate() {
            let depends_on = match plan.order {
                Order::Chain => place
                    .checked_sub(1)
                    .map(|it| numbers[it])
                    .into_iter()
                    .collect(),
                Order::Graph => step.depends_on.iter().map(number_of).collect(),
            };
            self.plan.push((numbers[place], depends_on));
            let (title, text) = (&step.title, &step.description);
            self.steps.entry(numbers[place]).or_insert_with(|| Known {
                words: format!("{title:?} {text:?} {:?} {}", step.tool, step.redo),
                state: State::Pending,
                summary: String::new(),
                notes: Vec::new(),
                saw: None,
            });
        }
    }

    fn depends_on(&self, number: StepNo) -> &[StepNo] {
        let found = self.plan.iter().find(|(known, _)| *known == number);
        found.map_or(&[], |(_, depends_on)| depends_on)
    }

    /// All that it depends on, directly or not.
    fn closure(&self, number: StepNo) -> BTreeSet<StepNo> {
        let mut found = BTreeSet::new();
        let mut stack = self.depends_on(number).to_vec();
        while let Some(before) = stack.pop() {
            if found.insert(before) {
                stack.extend(self.depends_on(before));
            }
        }
        found
    }

    /// What it depends on, with skipped ones replaced by what they depend on.
    fn without_skipped(&self, number: StepNo) -> BTreeSet<StepNo> {
        let mut found = BTreeSet::new();
        for &before in self.depends_on(number) {
            match self.steps[&before].state {
                State::Skipped => found.extend(self.without_skipped(before)),
                _ => drop(found.insert(before)),
            }
        }
        found
    }

    /// All that decides what it is asked and shown: a step that has begun stands for what it saw.
    fn identity(&self, number: StepNo) -> usize {
        let step = &self.steps[&number];
        match (step.saw, step.state) {
            (Some(saw), State::Running | State::Completed | State::Failed) => saw,
            _ => self.identity_anew(number),
        }
    }

    fn identity_anew(&self, number: StepNo) -> usize {
        let before = self.without_skipped(number).into_iter();
        let mut before: Vec<usize> = before.map(|before| self.identity(before)).collect();
        before.sort_unstable();
        let words = self.steps[&number].words.clone();
        let mut known = self.identities.borrow_mut();
        let next = known.len();
        *known.entry((words, before)).or_insert(next)
    }

    fn check_start(&self, number: StepNo) {
        for before in self.closure(number) {
            let state = self.steps[&before].state;
            assert!(
                matches!(state, State::Completed | State::Skipped),
                "step {number} begins while step {before} is {state:?}"
            );
        }
    }

    /// The context ends with the summaries and the notes of the completed ones, and has no others.
    fn check_sight(&self, number: StepNo, text: &str) {
        let closure = self.closure(number);
        let is_seen = |number: &StepNo| {
            closure.contains(number) && self.steps[number].state == State::Completed
        };
        let places = self.plan.iter().zip(1..).filter(|((it, _), _)| is_seen(it));
        let summaries =
            places.map(|((it, _), place)| format!("\n- Step {place}: {}", self.steps[it].summary));
        let summaries: String = summaries.collect();
        let seen = closure.iter().filter(|it| is_seen(it));
        let mut notes: Vec<_> = seen.flat_map(|it| &self.steps[it].notes).collect();
        notes.sort();
        let notes: String = notes.iter().map(|(_, text)| format!("\n{text}")).collect();
        let section = |heading: &str, lines: &str| match lines {
            "" => String::new(),
            lines => format!("\n\n## {heading}{lines}"),
        };
        let expected =
            section("Summaries of finished steps", &summaries) + &section("Scratchpad", &notes);
        let own = text.find("## Current step").unwrap();
        let end = text[own..].find("\n\n").map_or(text.len(), |at| own + at);
        assert_eq!(&text[end..], expected, "what step {number} sees");
    }

    /// A result, or a step that runs, is kept only as what it was; and nothing is done again of which
    /// there is a result.
    fn check_reuse(&self, before: &BTreeMap<StepNo, Known>) {
        let mut unused = BTreeSet::new();
        for (number, step) in before {
            let is_kept = self.plan.iter().any(|(kept, _)| kept == number);
            match step.state {
                State::Completed | State::Running if is_kept => {
                    let now = self.identity_anew(*number);
                    assert_eq!(Some(now), step.saw, "step {number} is kept");
                }
                State::Failed | State::Stopped => assert!(!is_kept, "step {number} is kept"),
                State::Completed => drop(unused.insert(step.saw)),
                _ => {}
            }
        }
        for (number, _) in &self.plan {
            if !before.contains_key(number) {
                let identity = Some(self.identity(*number));
                assert!(!unused.contains(&identity), "step {number} is done again");
            }
        }
    }

    /// What may begin is what the engine would begin.
    fn check_ready(&self) {
        let run = self.shadow.runs.last().unwrap();
        let ready = &run.plan.as_ref().unwrap().ready;
        for ((number, _), place) in self.plan.iter().zip(Place::all()) {
            let is_met = |before: StepNo| {
                matches!(self.steps[&before].state, State::Completed | State::Skipped)
            };
            let may_begin = self.steps[number].state == State::Pending
                && self.closure(*number).into_iter().all(is_met);
            assert_eq!(ready.contains(&place), may_begin, "step {number}");
        }
    }

    /// Steps of the plan have the same key exactly if they have the same identity.
    fn check_keys(&mut self) {
        let plan = self.shadow.runs.last().unwrap().plan.as_ref().unwrap();
        for (number, step) in plan.current() {
            let identity = match step.status {
                StepStatus::Skipped { .. } => self.identity_anew(number),
                _ => self.identity(number),
            };
            let known = *self.keys.entry(identity).or_insert(step.key);
            assert_eq!(known, step.key, "step {number}");
        }
        let different: BTreeSet<&StepKey> = self.keys.values().collect();
        assert_eq!(different.len(), self.keys.len());
    }
}
