//! What defines a hook.

use crate::{Hook, HookExecutor, OnError, Policy, ProgramConfig};
use cairn_engine::hooks::{PinnedHook, Point, Points, PresentHook};
use cairn_engine::key::{digest, hex};
use std::sync::Arc;

/// Goes into every digest, so that a change of the rule changes all of them.
const VERSION: &str = "1";

/// A hook of the settings or of a document: which questions it is asked, by which means, and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// Where it is asked.
    pub points: Points,
    /// Patterns of the agents whose runs ask it; none for all.
    pub agents: Option<Vec<String>>,
    /// Patterns of the tools whose calls it is asked about; empty for all.
    pub tools: Vec<String>,
    /// How it is asked.
    pub means: Means,
    /// Its limits.
    pub policy: Policy,
}

/// How a hook is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Means {
    /// It is registered in this process, under its name.
    InProcess,
    /// A program is started for each question.
    Program(ProgramConfig),
    /// A service is called, at this address.
    Host(String),
}

impl Definition {
    /// Covers all that defines the hook: 64 hexadecimal digits. Of variables of the environment it covers the names,
    /// and of a program that the settings name by its path, not what the file says.
    pub fn digest(&self) -> String {
        let mut parts = vec!["cairn.hook.definition".to_owned(), VERSION.to_owned()];
        parts.push(self.name.clone());
        let points = Point::ALL.iter().filter(|point| self.points.has(**point));
        let points: Vec<String> = points.map(|point| point.name().to_owned()).collect();
        push_list(&mut parts, &points);
        match &self.agents {
            None => parts.push("all".to_owned()),
            Some(agents) => push_list(&mut parts, agents),
        }
        push_list(&mut parts, &self.tools);
        match &self.means {
            Means::InProcess => parts.push("in process".to_owned()),
            Means::Program(program) => {
                parts.push("program".to_owned());
                push_list(&mut parts, &program.argv);
                push_list(&mut parts, &program.env);
            }
            Means::Host(url) => parts.extend(["host".to_owned(), url.clone()]),
        }
        parts.push(self.policy.timeout.as_millis().to_string());
        let on_error = match self.policy.on_error {
            None => "by point",
            Some(OnError::Block) => "block",
            Some(OnError::Proceed) => "proceed",
        };
        parts.push(on_error.to_owned());
        let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
        hex(&digest(&parts))
    }

    /// The hook as runs choose and pin it.
    pub fn present(&self) -> PresentHook {
        PresentHook {
            pin: PinnedHook {
                name: self.name.clone(),
                digest: self.digest(),
                points: self.points,
                tools: self.tools.clone(),
            },
            agents: self.agents.clone(),
        }
    }

    /// The hook, to be [asked](crate::ask). None if it is of this process and not registered. Must be called inside a
    /// tokio runtime.
    pub fn hook(&self, executor: &dyn HookExecutor) -> Option<Arc<dyn Hook>> {
        match &self.means {
            Means::InProcess => executor.in_process(&self.name),
            Means::Program(program) => Some(executor.program(program, self.policy.timeout)),
            Means::Host(url) => Some(executor.host(url, self.policy.timeout)),
        }
    }
}

/// A list with its length, so that no two lists behind each other look like others.
fn push_list(parts: &mut Vec<String>, list: &[String]) {
    parts.push(list.len().to_string());
    parts.extend_from_slice(list);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn guard() -> Definition {
        Definition {
            name: "guard".to_owned(),
            points: [Point::PreToolCall].into_iter().collect(),
            agents: None,
            tools: vec!["shell_exec".to_owned()],
            means: Means::Program(ProgramConfig {
                argv: vec!["sh".to_owned(), "guard.sh".to_owned()],
                env: vec!["HOME".to_owned()],
            }),
            policy: Policy::default(),
        }
    }

    #[test]
    fn every_part_of_a_definition_changes_its_digest() {
        let changes: [fn(&mut Definition); 12] = [
            |it| it.name = "guards".to_owned(),
            |it| it.points = it.points.with(Point::OnError),
            |it| it.agents = Some(Vec::new()),
            |it| it.agents = Some(vec!["review*".to_owned()]),
            |it| it.tools.clear(),
            |it| it.means = Means::InProcess,
            |it| it.means = Means::Host("http://127.0.0.1:1".to_owned()),
            |it| {
                it.means = Means::Program(ProgramConfig {
                    argv: vec!["sh".to_owned()],
                    env: vec!["guard.sh".to_owned(), "HOME".to_owned()],
                });
            },
            |it| {
                it.means = Means::Program(ProgramConfig {
                    argv: vec!["sh".to_owned(), "guard.sh".to_owned(), "HOME".to_owned()],
                    env: Vec::new(),
                });
            },
            |it| it.policy.timeout = Duration::from_secs(6),
            |it| it.policy.on_error = Some(OnError::Block),
            |it| it.policy.on_error = Some(OnError::Proceed),
        ];
        let mut digests = vec![guard().digest()];
        for change in changes {
            let mut changed = guard();
            change(&mut changed);
            digests.push(changed.digest());
        }
        assert!(digests.iter().all(|digest| digest.len() == 64));
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), 1 + changes.len());
        assert_eq!(guard().present().pin.digest, guard().digest());
    }
}
