//! The files of a workspace that a person confirmed.

use crate::agent::{self, AgentFile};
use crate::fault::AgentError;
use crate::instructions;
use crate::names::of_file;
use crate::skill::{self, SkillFile};
use std::collections::BTreeMap;

/// A file of the workspace, whose content a person confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// From the workspace: `.cairn/agents/reviewer.md`.
    pub path: String,
    /// What it defines.
    pub kind: FileKind,
    /// Its content.
    pub text: String,
    /// Of its content; of a skill, of all files of its folder.
    pub digest: String,
}

/// What a file of a workspace defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// An agent.
    Agent,
    /// A skill: its `SKILL.md`.
    Skill,
    /// Instructions for all agents.
    Instructions,
}

/// What the files of a workspace define.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Workspace {
    /// Agents by their names.
    pub agents: BTreeMap<String, AgentFile>,
    /// Agents whose files have faults, by the names of the files, with the first fault in words.
    pub faulty: BTreeMap<String, String>,
    /// Skills by their names, each with the digest of its folder.
    pub skills: BTreeMap<String, (SkillFile, String)>,
    /// Instructions for all agents; empty for none.
    pub instructions: String,
    /// What a person should know: faults for which a file does not count, and parts of instructions that do
    /// not. One line each, which begins with the file.
    pub problems: Vec<String>,
}

/// Reads the files of a workspace. Of two with one name the first counts.
///
/// A file with faults is a problem, and the others count all the same.
pub fn workspace(files: &[File]) -> Workspace {
    let mut reading = Reading::default();
    for file in files {
        reading.take(file);
    }
    reading.workspace
}

#[derive(Default)]
struct Reading<'a> {
    workspace: Workspace,
    /// Files by their kinds and by the names that they define.
    paths: BTreeMap<(&'static str, String), &'a str>,
}

impl<'a> Reading<'a> {
    fn take(&mut self, file: &'a File) {
        let File {
            path, text, digest, ..
        } = file;
        match file.kind {
            FileKind::Agent => match agent::parse(path, text) {
                Ok(parsed) => self.agent(path, parsed.value),
                Err(error) => self.faulty_agent(path, &error),
            },
            FileKind::Skill => match skill::parse(path, text) {
                Ok(parsed) => self.skill(path, parsed.value, digest),
                Err(error) => self.faulty(&error),
            },
            FileKind::Instructions => match instructions::parse(path, text) {
                Ok(parsed) => {
                    let lines = parsed.warnings.iter().map(|fault| fault.to_line(path));
                    self.workspace.problems.extend(lines);
                    self.workspace.instructions = parsed.value;
                }
                Err(error) => self.faulty(&error),
            },
        }
    }

    fn agent(&mut self, path: &'a str, agent: AgentFile) {
        if self.is_first("agent", &agent.name, path) {
            self.workspace.agents.insert(agent.name.clone(), agent);
        }
    }

    /// The file would have narrowed an agent of its name, so that agent is not used without it.
    fn faulty_agent(&mut self, path: &'a str, error: &AgentError) {
        self.faulty(error);
        let name = of_file(path);
        let fault = error.faults.first().map(|fault| fault.to_line(path));
        if self.is_first("agent", name, path) {
            let fault = fault.unwrap_or_default();
            self.workspace.faulty.insert(name.to_owned(), fault);
        }
    }

    fn skill(&mut self, path: &'a str, skill: SkillFile, digest: &str) {
        if self.is_first("skill", &skill.name, path) {
            let name = skill.name.clone();
            self.workspace
                .skills
                .insert(name, (skill, digest.to_owned()));
        }
    }

    fn faulty(&mut self, error: &AgentError) {
        let lines = error.faults.iter().map(|it| it.to_line(&error.path));
        self.workspace.problems.extend(lines);
        let path = error.path.escape_debug();
        let end = format!("{path}: has faults, so it does not count");
        self.workspace.problems.push(end);
    }

    /// Notes the file that defines the name, or that an earlier one does.
    fn is_first(&mut self, kind: &'static str, name: &str, path: &'a str) -> bool {
        let key = (kind, name.to_owned());
        if let Some(first) = self.paths.get(&key) {
            let problem = format!(
                "{}: is {kind} {name}, which {first} defines already, so {first} counts (allowed: another \
                 name)",
                path.escape_debug(),
                first = first.escape_debug()
            );
            self.workspace.problems.push(problem);
            return false;
        }
        self.paths.insert(key, path);
        true
    }
}
