//! Plans: what a person or a planner proposes ([`PlanDraft`]) and what can be carried out ([`Plan`]).

mod error;

pub use error::{Located, PlanError};

use crate::limits::{MAX_EXTERNAL_ID, MAX_PROMPT_NOTE};
use crate::needs::{check_capabilities, check_state_tools};
use crate::session::{Place, Slot, StepNo};
use crate::text::first_line;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Most steps of a plan.
pub const MAX_STEPS: usize = 10_000;

/// How the steps of a plan depend on each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Each step depends on the one before it.
    #[default]
    Chain,
    /// Only `depends_on` counts.
    Graph,
}

/// One tool call that needs no model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ToolInvocation {
    /// Name of the tool.
    pub name: String,
    /// A JSON object as text.
    pub arguments: String,
}

/// A step as it was proposed: dependencies are names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepDraft {
    /// Names the step in `depends_on`; empty means its position, from 1.
    pub id: String,
    /// Short name; may be empty.
    pub title: String,
    /// What the model is asked to do; may be empty only if a tool is given.
    pub description: String,
    /// Makes the step this one call.
    pub tool: Option<ToolInvocation>,
    /// Names of steps of the same plan.
    pub depends_on: Vec<String>,
    /// What its resources must be able to do; see [`Needed`](crate::pool::Needed).
    pub capabilities: Vec<String>,
    /// How often it was to be done again though nothing had changed.
    pub redo: u32,
    /// The task that it stands for in another system; may be empty.
    pub external_id: String,
    /// What its model is told in addition; may be empty.
    pub note: String,
}

/// A plan as it was proposed, by a person or a model; not yet checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanDraft {
    /// How the steps depend on each other.
    pub order: Order,
    /// The steps.
    pub steps: Vec<StepDraft>,
}

/// A step with its dependencies resolved: to places of its plan, or to slots of its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep<At = Place> {
    /// Unique in the plan, never empty.
    pub id: String,
    /// Short name; may be empty.
    pub title: String,
    /// What the model is asked to do.
    pub description: String,
    /// Makes the step this one call; the arguments are canonical JSON.
    pub tool: Option<ToolInvocation>,
    /// The steps that this one waits for, in the order of the plan, without repeats.
    pub depends_on: Vec<At>,
    /// What its resources must be able to do; see [`Needed`](crate::pool::Needed).
    pub capabilities: Vec<String>,
    /// How often it was to be done again though nothing had changed.
    pub redo: u32,
    /// The task that it stands for in another system; may be empty.
    pub external_id: String,
    /// What its model is told in addition, in place of the note of its run; may be empty.
    pub note: String,
}

impl<At> PlanStep<At> {
    /// What people call the step, on one line: its title, else the first line of its description,
    /// else its tool.
    pub fn label(&self) -> &str {
        label(&self.title, &self.description, self.tool.as_ref()).unwrap_or(&self.id)
    }
}

impl PlanStep {
    /// The step among all of its run, given the slot of each place of its plan.
    pub(crate) fn in_table(self, slots: &[Slot]) -> PlanStep<Slot> {
        let depends_on = self.depends_on.iter().map(|place| slots[place.index()]);
        PlanStep {
            depends_on: depends_on.collect(),
            id: self.id,
            title: self.title,
            description: self.description,
            tool: self.tool,
            capabilities: self.capabilities,
            redo: self.redo,
            external_id: self.external_id,
            note: self.note,
        }
    }
}

impl StepDraft {
    /// What [`PlanStep::label`] will be, given the step's place.
    pub fn label(&self, place: Place) -> String {
        let label = label(&self.title, &self.description, self.tool.as_ref());
        label.map_or_else(|| id_of(place, self), str::to_owned)
    }
}

fn label<'a>(
    title: &'a str,
    description: &'a str,
    tool: Option<&'a ToolInvocation>,
) -> Option<&'a str> {
    first_line(title)
        .or_else(|| first_line(description))
        .or(tool.map(|tool| tool.name.as_str()))
}

/// A plan that can be carried out: at least one step, unique ids, no circle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// How the steps depend on each other.
    pub order: Order,
    /// The steps, by [`Place`].
    pub steps: Vec<PlanStep>,
}

impl Plan {
    /// Checks a draft that is to be accepted: as [`Plan::new`] does, that the capabilities of its steps
    /// can be read, that external ids and notes are not too long, and that no step names a tool that only
    /// models call. Whether a resource has the capabilities is asked when a step begins, because resources
    /// come and go.
    ///
    /// A journal holds plans that were accepted before. They are read with [`Plan::new`], because what is
    /// accepted may change between versions.
    ///
    /// # Errors
    /// The first fault of the draft, and else the first step with such a capability, text or tool.
    pub fn accept(draft: &PlanDraft) -> Result<Self, PlanError> {
        let plan = Self::new(draft)?;
        check_capabilities(draft)?;
        check_lengths(draft)?;
        check_state_tools(draft)?;
        Ok(plan)
    }

    /// Checks a draft and resolves its dependencies, in time proportional to its size.
    ///
    /// # Errors
    /// The first fault found, in the order of the steps.
    pub fn new(draft: &PlanDraft) -> Result<Self, PlanError> {
        if draft.steps.is_empty() {
            return Err(PlanError::NoSteps);
        }
        if draft.steps.len() > MAX_STEPS {
            return Err(PlanError::TooManySteps {
                steps: draft.steps.len(),
            });
        }
        let positions = positions_by_id(&draft.steps)?;
        let mut steps = Vec::with_capacity(draft.steps.len());
        for (position, step) in draft.steps.iter().enumerate() {
            steps.push(PlanStep {
                id: id_of(Place::at(position), step),
                title: step.title.clone(),
                description: step.description.clone(),
                tool: checked_tool(position, step)?,
                depends_on: dependencies(draft.order, position, step, &positions)?,
                capabilities: step.capabilities.clone(),
                redo: step.redo,
                external_id: step.external_id.clone(),
                note: step.note.clone(),
            });
        }
        refuse_circles(&steps)?;
        Ok(Self {
            order: draft.order,
            steps,
        })
    }
}

/// The numbers of a plan's steps as they stand with it; those of a first plan need not be written.
pub fn numbers_of(plan: &PlanDraft, numbers: &[StepNo]) -> Vec<StepNo> {
    if numbers.is_empty() {
        return StepNo::all().take(plan.steps.len()).collect();
    }
    numbers.to_vec()
}

fn id_of(place: Place, step: &StepDraft) -> String {
    if step.id.is_empty() {
        place.to_string()
    } else {
        step.id.clone()
    }
}

fn check_lengths(draft: &PlanDraft) -> Result<(), PlanError> {
    for (step, drafted) in draft.steps.iter().enumerate() {
        for (field, text, most) in [
            ("external_id", &drafted.external_id, MAX_EXTERNAL_ID),
            ("note", &drafted.note, MAX_PROMPT_NOTE),
        ] {
            let bytes = text.len();
            if bytes > most {
                return Err(PlanError::TooLong {
                    step,
                    field,
                    bytes,
                    most,
                });
            }
        }
    }
    Ok(())
}

fn positions_by_id(steps: &[StepDraft]) -> Result<HashMap<String, usize>, PlanError> {
    let mut positions = HashMap::with_capacity(steps.len());
    for (second, step) in steps.iter().enumerate() {
        let id = id_of(Place::at(second), step);
        if let Some(&first) = positions.get(&id) {
            return Err(PlanError::DuplicateId { id, first, second });
        }
        positions.insert(id, second);
    }
    Ok(positions)
}

fn checked_tool(step: usize, draft: &StepDraft) -> Result<Option<ToolInvocation>, PlanError> {
    let Some(tool) = &draft.tool else {
        if draft.description.trim().is_empty() {
            return Err(PlanError::NoDescription { step });
        }
        return Ok(None);
    };
    let bad = |problem: String| PlanError::BadArguments { step, problem };
    let text = if tool.arguments.trim().is_empty() {
        "{}"
    } else {
        &tool.arguments
    };
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
    if !value.is_object() {
        return Err(bad("it is another kind of value".to_owned()));
    }
    Ok(Some(ToolInvocation {
        name: tool.name.clone(),
        arguments: crate::canonical::to_canonical_json(&value),
    }))
}

fn dependencies(
    order: Order,
    step: usize,
    draft: &StepDraft,
    positions: &HashMap<String, usize>,
) -> Result<Vec<Place>, PlanError> {
    if order == Order::Chain {
        if !draft.depends_on.is_empty() {
            return Err(PlanError::DependsOnInChain { step });
        }
        return Ok(step.checked_sub(1).map(Place::at).into_iter().collect());
    }
    let mut found = Vec::with_capacity(draft.depends_on.len());
    for dependency in &draft.depends_on {
        let Some(&position) = positions.get(dependency) else {
            return Err(PlanError::UnknownDependency {
                step,
                dependency: dependency.clone(),
            });
        };
        found.push(Place::at(position));
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Takes away steps that wait for nothing until none is left; what cannot be taken away lies on a
/// circle or behind one.
fn refuse_circles(steps: &[PlanStep]) -> Result<(), PlanError> {
    let mut waits: Vec<usize> = steps.iter().map(|step| step.depends_on.len()).collect();
    let dependents = dependents(steps);
    let mut free: Vec<usize> = (0..steps.len()).filter(|&i| waits[i] == 0).collect();
    let mut taken = 0;
    while let Some(step) = free.pop() {
        taken += 1;
        for &next in &dependents[step] {
            waits[next] -= 1;
            if waits[next] == 0 {
                free.push(next);
            }
        }
    }
    if taken == steps.len() {
        return Ok(());
    }
    Err(PlanError::Circle {
        circle: name_circle(steps, &waits),
    })
}

/// Walks from any step that is left along dependencies that are left: it must come back.
fn name_circle(steps: &[PlanStep], waits: &[usize]) -> Vec<String> {
    let mut seen_at = HashMap::new();
    let mut path = Vec::new();
    let mut here = waits.iter().position(|&n| n > 0);
    while let Some(step) = here {
        path.push(steps[step].id.clone());
        if let Some(&start) = seen_at.get(&step) {
            let mut circle = path.split_off(start);
            circle.reverse();
            return circle;
        }
        seen_at.insert(step, path.len() - 1);
        here = steps[step]
            .depends_on
            .iter()
            .map(|before| before.index())
            .find(|&d| waits[d] > 0);
    }
    path
}

/// For each step, the positions of those that wait for it.
fn dependents(steps: &[PlanStep]) -> Vec<Vec<usize>> {
    let mut dependents = vec![Vec::new(); steps.len()];
    for (position, step) in steps.iter().enumerate() {
        for dependency in &step.depends_on {
            dependents[dependency.index()].push(position);
        }
    }
    dependents
}
