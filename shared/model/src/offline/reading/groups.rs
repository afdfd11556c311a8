//! Reading several files: in parallel within a group, a sub-goal for each group.

use crate::offline::desk::{Answer, Call, Desk, Reply, read_file, step};
use crate::offline::results::{Excerpt, excerpt};
use crate::offline::text::{brief, plural, visible};
use serde_json::json;

/// Most sub-goals of one step. Each takes two tool turns; with those around them a step stays
/// below its limit.
const MAX_GROUPS: usize = 3;

/// Lines of a file that are to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) path: String,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Reads all jobs, group by group; the answers are in the order of the jobs.
///
/// Whatever a reply calls belongs to the sub-goal that was in focus before it. So a reply turns to
/// a sub-goal, the next one reads, and the one after that completes.
pub(super) fn read_all(desk: &Desk<'_>, jobs: &[Job]) -> Result<Vec<Answer>, Reply> {
    let groups = groups(jobs);
    let reading = format!("reading {}", plural(jobs.len() as u64, "file"));
    if groups.len() < 2 {
        return desk.ask(&reading, reads(jobs));
    }
    let goals: Vec<String> = (1..)
        .zip(&groups)
        .map(|(n, group)| goal(n, group, &groups))
        .collect();
    let opening = step(json!({"plan": goals, "focus": goals[0]}));
    // Sub-goals are only completed if they were accepted: else that would end the step itself.
    let with_goals = desk.ask_one(&reading, opening)?.is_ok();
    let mut answers: Vec<Answer> = Vec::new();
    for (done, group) in (1..).zip(&groups) {
        let results = desk.ask("", reads(group))?;
        if with_goals {
            let summary = group_summary(group, &results);
            let (thought, closing) = match goals.get(done) {
                Some(next) => (
                    format!("{done} of {} done", groups.len()),
                    json!({"complete": true, "summary": summary, "focus": next}),
                ),
                None => (
                    "everything is read".to_owned(),
                    json!({"complete": true, "summary": summary}),
                ),
            };
            // Whatever the answer, the group is read.
            let _ = desk.ask_one(&thought, step(closing))?;
        }
        answers.extend(results);
    }
    Ok(answers)
}

/// At most [`MAX_GROUPS`] groups in order, as even as can be, the larger ones first.
fn groups(jobs: &[Job]) -> Vec<&[Job]> {
    let mut groups = Vec::new();
    let mut rest = jobs;
    while !rest.is_empty() {
        let left = MAX_GROUPS - groups.len();
        let (group, after) = rest.split_at(rest.len().div_ceil(left));
        groups.push(group);
        rest = after;
    }
    groups
}

fn reads(jobs: &[Job]) -> Vec<Call> {
    let calls = jobs.iter();
    calls
        .map(|job| read_file(&job.path, job.from, job.to))
        .collect()
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
