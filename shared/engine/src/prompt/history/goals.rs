//! The goals of a history while it is made, and what was done for each.

use super::lines::{GoalState, Lines, goal_of};
use std::collections::HashMap;

#[derive(Debug)]
struct Goal {
    /// As its line shows it.
    text: String,
    state: GoalState,
    /// The history before does not show that state.
    is_changed: bool,
    /// Where its lines stand.
    section: Option<usize>,
}

/// Lines of one goal, or of none.
#[derive(Debug)]
struct Section {
    goal: Option<usize>,
    lines: Lines,
}

/// Goals, and the lines that a history adds to the one before it.
#[derive(Debug, Default)]
pub(super) struct Goals {
    goals: Vec<Goal>,
    /// In the order in which work began.
    sections: Vec<Section>,
    /// The goal in progress.
    current: Option<usize>,
    /// The goal that a person gave last.
    newest: Option<usize>,
    /// The goal that lines without another one belong to, because the history before ends with it.
    continued: Option<usize>,
    /// The model divides one task into goals. Else each message of a person is a goal.
    is_step: bool,
}

impl Goals {
    /// Begins with the goals of the history before. `is_step`: the messages show that they are a step's.
    pub(super) fn after(before: &str, is_step: bool) -> Self {
        let mut this = Self {
            is_step,
            ..Self::default()
        };
        let mut known = HashMap::new();
        for (state, text) in before.split('\n').filter_map(goal_of) {
            // No goal of a conversation is ever planned or given up.
            this.is_step |= matches!(state, GoalState::ToDo | GoalState::Skipped);
            let at = *known.entry(text).or_insert(this.goals.len());
            match this.goals.get_mut(at) {
                Some(goal) => goal.state = state,
                None => this.add(text, state, false),
            }
            this.continued = Some(at);
        }
        let is_open = |goal: &Goal| goal.state == GoalState::InProgress;
        this.newest = this.continued;
        this.current = match this.is_step {
            true => this.goals.iter().position(is_open),
            false => this.newest.filter(|at| is_open(&this.goals[*at])),
        };
        this
    }

    fn add(&mut self, text: &str, state: GoalState, is_changed: bool) {
        self.goals.push(Goal {
            text: text.to_owned(),
            state,
            is_changed,
            section: None,
        });
    }

    /// The messages are a step's, as far as it is known.
    pub(super) fn is_step(&self) -> bool {
        self.is_step
    }

    /// Where what is done now is written down.
    pub(super) fn lines(&mut self) -> &mut Lines {
        let at = self.section(self.current);
        &mut self.sections[at].lines
    }

    fn section(&mut self, goal: Option<usize>) -> usize {
        let found = match goal {
            Some(goal) => self.goals[goal].section,
            // It stays where it came up.
            None => {
                let last = self.sections.len().checked_sub(1);
                last.filter(|last| self.sections[*last].goal.is_none())
            }
        };
        found.unwrap_or_else(|| {
            let at = self.sections.len();
            let lines = Lines::default();
            self.sections.push(Section { goal, lines });
            if let Some(goal) = goal {
                self.goals[goal].section = Some(at);
            }
            at
        })
    }

    fn set(&mut self, goal: usize, state: GoalState) {
        self.goals[goal].state = state;
        self.goals[goal].is_changed = true;
    }

    fn begin(&mut self, goal: usize) {
        self.set(goal, GoalState::InProgress);
        self.current = Some(goal);
        self.section(Some(goal));
    }

    /// A person says something.
    pub(super) fn ask(&mut self, text: &str) {
        if self.is_step {
            return self.lines().said(1, text);
        }
        let at = self.goals.len();
        self.add(text, GoalState::InProgress, true);
        self.begin(at);
        self.newest = Some(at);
    }

    /// The last reply did not end its turn.
    pub(super) fn resume(&mut self) {
        let is_over = !self.is_step && self.current.is_none();
        let ended = self.newest.filter(|_| is_over);
        if let Some(ended) = ended {
            self.begin(ended);
        }
    }

    fn find(&self, text: &str) -> Option<usize> {
        self.goals.iter().position(|goal| goal.text == text)
    }

    /// Only a goal that was given up can be planned again.
    pub(super) fn plan(&mut self, text: &str) {
        match self.find(text) {
            Some(at) if self.goals[at].state == GoalState::Skipped => self.set(at, GoalState::ToDo),
            Some(_) => {}
            None => self.add(text, GoalState::ToDo, true),
        }
    }

    /// The goal of that text. A history without its oldest lines may have lost it.
    fn find_or_add(&mut self, text: &str) -> usize {
        self.find(text).unwrap_or_else(|| {
            self.add(text, GoalState::ToDo, true);
            self.goals.len() - 1
        })
    }

    /// Gives up a goal.
    pub(super) fn drop_goal(&mut self, text: &str) {
        let at = self.find_or_add(text);
        self.set(at, GoalState::Skipped);
        self.section(Some(at));
        self.current = self.current.filter(|current| *current != at);
    }

    /// Turns to a goal. A goal that loses the focus before it is completed is as if planned.
    pub(super) fn focus(&mut self, text: &str) {
        let at = self.find_or_add(text);
        if self.current == Some(at) {
            return;
        }
        if let Some(left) = self.current {
            self.set(left, GoalState::ToDo);
        }
        self.begin(at);
    }

    /// What is in progress has come to its end.
    pub(super) fn complete(&mut self, summary: &str) {
        if !summary.is_empty() {
            self.lines().summary(1, summary);
        }
        if let Some(current) = self.current.take() {
            self.set(current, GoalState::Done);
            self.section(Some(current));
        }
    }

    /// The lines that the history before does not have.
    pub(super) fn text(&self) -> String {
        let mut text = Lines::default();
        for (at, section) in self.sections.iter().enumerate() {
            if let Some(index) = section.goal {
                let goal = &self.goals[index];
                if self.is_only_planned(goal) {
                    continue;
                }
                let continues = at == 0 && self.continued == Some(index) && !goal.is_changed;
                if !continues {
                    text.goal(0, goal.state, &goal.text);
                }
            }
            text.append(&section.lines);
        }
        let changed = self.goals.iter().filter(|goal| goal.is_changed);
        for goal in changed.filter(|goal| self.is_only_planned(goal)) {
            text.goal(0, goal.state, &goal.text);
        }
        text.finish()
    }

    /// Nothing was done for it since the history before.
    fn is_only_planned(&self, goal: &Goal) -> bool {
        let is_bare = |at: usize| self.sections[at].lines.is_empty();
        goal.state == GoalState::ToDo && goal.section.is_none_or(is_bare)
    }
}
