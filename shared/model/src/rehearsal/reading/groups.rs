//! Reading several files: in parallel within a group, a sub-goal for each group.

use crate::rehearsal::desk::{Answer, Desk, Reply, read_file, step};
use crate::rehearsal::results::{Excerpt, excerpt};
use crate::rehearsal::text::{brief, plural, visible};
use serde_json::json;

/// Most sub-goals of one step; with the tool turns around them a step stays below its limit.
const MAX_GROUPS: usize = 5;

/// Lines of a file that are to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) path: String,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Reads all jobs, group by group; the answers are in the order of the jobs.
pub(super) fn read_all(desk: &Desk<'_>, jobs: &[Job]) -> Result<Vec<Answer>, Reply> {
    let groups: Vec<&[Job]> = match jobs {
        [] => Vec::new(),
        jobs => jobs.chunks(jobs.len().div_ceil(MAX_GROUPS)).collect(),
    };
    let goals: Vec<String> = (1..)
        .zip(&groups)
        .map(|(n, group)| goal(n, group, &groups))
        .collect();
    let mut answers: Vec<Answer> = Vec::new();
    // Sub-goals are only completed if they were accepted: else that would end the step itself.
    let mut with_goals = groups.len() > 1;
    let mut before: Option<String> = None;
    for (at, group) in groups.iter().enumerate() {
        let mut calls = Vec::new();
        if with_goals {
            calls.push(match &before {
                None => step(json!({"plan": goals, "focus": goals[at]})),
                Some(summary) => {
                    step(json!({"complete": true, "summary": summary, "focus": goals[at]}))
                }
            });
        }
        calls.extend(
            group
                .iter()
                .map(|job| read_file(&job.path, job.from, job.to)),
        );
        let mut results = desk.ask(&thought(at, &groups, jobs.len()), calls)?;
        if with_goals {
            let accepted = results.remove(0).is_ok();
            with_goals = at > 0 || accepted;
        }
        before = Some(group_summary(group, &results));
        answers.extend(results);
    }
    if let Some(summary) = before.filter(|_| with_goals) {
        let closing = step(json!({"complete": true, "summary": summary}));
        // Whatever the answer, the reading is done.
        let _ = desk.ask_one("everything is read", closing)?;
    }
    Ok(answers)
}

fn goal(number: usize, group: &[Job], groups: &[&[Job]]) -> String {
    let first = group
        .first()
        .map(|job| visible(&job.path))
        .unwrap_or_default();
    match group.len() {
        1 => format!("Read {first}"),
        more => format!(
            "Read {first} and {} more ({number} of {})",
            more - 1,
            groups.len()
        ),
    }
}

fn thought(at: usize, groups: &[&[Job]], files: usize) -> String {
    match at {
        0 => format!("reading {}", plural(files as u64, "file")),
        at => format!("{} of {} done", at, groups.len()),
    }
}

fn group_summary(group: &[Job], answers: &[Answer]) -> String {
    let parts: Vec<String> = group
        .iter()
        .zip(answers)
        .map(|(job, answer)| match opened(answer) {
            Ok(read) => format!(
                "{}: read lines {} to {} of {}",
                visible(&job.path),
                read.from,
                read.to,
                read.total
            ),
            Err(error) => format!("{} could not be read: {error}", visible(&job.path)),
        })
        .collect();
    parts.join("; ")
}

/// What an answer of `read_file` shows, or why it shows nothing.
pub(super) fn opened(answer: &Answer) -> Result<Excerpt, String> {
    let text = answer.as_ref().map_err(|error| brief(error, 200))?;
    excerpt(text).ok_or_else(|| "the tool's answer is not understood".to_owned())
}
