//! Lists of tools, in the names of Cairn and of other programs.

mod known;

use crate::fault::{Found, quoted, shown};
use crate::fields::{Item, MAX_ITEMS, items};
use crate::rights::{Draft, EVERY};
use crate::yaml::{Entry, Value};
use cairn_engine::rules::NamePattern;
use known::{Meaning, meaning};
use std::collections::BTreeSet;

pub(crate) use known::DELEGATE;
pub use known::of_other_program;

/// A name of a list, as the tools of Cairn that it stands for.
#[derive(Debug)]
pub(crate) struct Named {
    /// None for every tool.
    pub(crate) patterns: Option<Vec<String>>,
    /// What the calls are limited to: `git:*` of `Bash(git:*)`.
    pub(crate) condition: Option<String>,
}

/// Reads `tools`: what is offered.
pub(crate) fn offered(entry: &Entry, draft: &mut Draft, found: &mut Found) {
    let mut offered = BTreeSet::new();
    let mut has_every = false;
    match &entry.value {
        Value::Map(entries) => return switches(entries, draft, found),
        // Nothing could be meant as no tool and as every tool.
        value if is_blank(value) => {
            let allowed = "names of tools, or [] for none";
            return found.error(entry.line, &entry.name, shown(value), allowed);
        }
        _ => {}
    }
    for item in listed(entry, found) {
        let Some(named) = named(&item, &entry.name, found) else {
            continue;
        };
        let Some(patterns) = named.patterns else {
            has_every = true;
            continue;
        };
        match named.condition {
            Some(agents) if patterns == [DELEGATE] => {
                draft.restrict_agents(agents_of(&agents));
            }
            Some(_) => ask_instead(&patterns, &item, &entry.name, draft, found),
            None => {}
        }
        offered.extend(patterns);
    }
    if !has_every {
        draft.restrict(offered);
    }
}

/// Reads `disallowed-tools`: what is not offered.
pub(crate) fn denied(entry: &Entry, draft: &mut Draft, found: &mut Found) {
    if is_blank(&entry.value) {
        let allowed = "names of tools, or [] for none";
        return found.error(entry.line, &entry.name, shown(&entry.value), allowed);
    }
    for item in listed(entry, found) {
        let Some(named) = named(&item, &entry.name, found) else {
            continue;
        };
        let patterns = named.patterns.unwrap_or_else(|| vec![EVERY.to_owned()]);
        match named.condition {
            Some(_) => ask_instead(&patterns, &item, &entry.name, draft, found),
            None => draft.denied.extend(patterns),
        }
    }
}

/// Reads `tools` as a map of names to true or false.
fn switches(entries: &[Entry], draft: &mut Draft, found: &mut Found) {
    let (mut on, mut is_limited) = (BTreeSet::new(), false);
    let mut off = Vec::new();
    for entry in bounded(entries, found) {
        let Value::Truth(is_on) = entry.value else {
            let name = format!("tools.{}", entry.name);
            found.error(entry.line, &name, shown(&entry.value), "true or false");
            continue;
        };
        let item = Item {
            line: entry.line,
            text: entry.name.clone(),
        };
        let Some(named) = named(&item, "tools", found) else {
            continue;
        };
        match named.patterns {
            None => is_limited |= !is_on,
            Some(patterns) if is_on => on.extend(patterns),
            Some(patterns) => off.push((entry, patterns)),
        }
    }
    for (entry, patterns) in off {
        warn_of_both(entry, &patterns, &on, found);
        draft.denied.extend(patterns);
    }
    if is_limited {
        draft.restrict(on);
    }
}

/// Says which tools are denied that another switch is to offer: names of other programs may share tools of Cairn.
fn warn_of_both(entry: &Entry, patterns: &[String], on: &BTreeSet<String>, found: &mut Found) {
    let both: Vec<&str> = patterns
        .iter()
        .filter(|it| on.contains(*it))
        .map(String::as_str)
        .collect();
    if !both.is_empty() {
        let problem = format!(
            "is false and counts, though another name offers the same: {}",
            both.join(", ")
        );
        found.warn(entry.line, &format!("tools.{}", entry.name), problem);
    }
}

/// At most so many entries as a list may have.
pub(crate) fn bounded<'a>(entries: &'a [Entry], found: &mut Found) -> &'a [Entry] {
    match entries.get(MAX_ITEMS) {
        None => entries,
        Some(entry) => {
            let problem = format!("is one of {} names", entries.len());
            found.error(
                entry.line,
                &entry.name,
                problem,
                format!("at most {MAX_ITEMS}"),
            );
            &entries[..MAX_ITEMS]
        }
    }
}

/// The agents in the parentheses of `Agent(worker, tester)`.
fn agents_of(condition: &str) -> BTreeSet<String> {
    let names = condition.split(',').map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A limit that Cairn cannot hold to becomes a question for each call.
fn ask_instead(
    patterns: &[String],
    item: &Item,
    field: &str,
    draft: &mut Draft,
    found: &mut Found,
) {
    let tools = patterns.join(", ");
    let problem = format!(
        "limits calls by {}, which Cairn does not know: each call of {tools} asks",
        quoted(&item.text)
    );
    found.warn(item.line, field, problem);
    draft.ask.extend(patterns.iter().cloned());
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Nothing => true,
        Value::Text(text) => text.trim().is_empty(),
        _ => false,
    }
}

/// The names of a list, of which each item may have several.
fn listed(entry: &Entry, found: &mut Found) -> Vec<Item> {
    let items = items(entry, split, found);
    let parts = items.iter().flat_map(|item| {
        split(&item.text).into_iter().map(|part| Item {
            line: item.line,
            text: part.to_owned(),
        })
    });
    parts.collect()
}

/// The parts of a text between commas and blanks, except those in parentheses.
pub(crate) fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let is_between = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c == ',' || c.is_whitespace())
    };
    let parts = text.split(is_between);
    parts.filter(|part| !part.is_empty()).collect()
}

/// The tools that a name stands for. None after an error.
pub(crate) fn named(item: &Item, field: &str, found: &mut Found) -> Option<Named> {
    let text = item.text.as_str();
    let (name, condition) = match text.split_once('(') {
        None => (text, None),
        Some((name, rest)) => match rest.strip_suffix(')') {
            Some(condition) => (name.trim_end(), Some(condition)),
            None => {
                let problem = format!("has a '(' without a ')' in {}", quoted(text));
                found.error(item.line, field, problem, "such as Bash(git:*)");
                return None;
            }
        },
    };
    // `Bash(*)` has no limit.
    let condition = condition.filter(|it| !matches!(it.trim(), "" | "*" | ":*"));
    let patterns = match meaning(name) {
        Meaning::Every => None,
        Meaning::Tools(tools) => Some(tools.iter().copied().map(str::to_owned).collect()),
        Meaning::Pattern { pattern, is_known } => {
            check_pattern(name, &pattern, item, field, found)?;
            if !is_known {
                let name = quoted(name);
                let problem =
                    format!("has {name}, which is no tool of Cairn: it is kept as a pattern");
                found.warn(item.line, field, problem);
            }
            Some(vec![pattern])
        }
    };
    Some(Named {
        patterns,
        condition: condition.map(str::to_owned),
    })
}

/// None if it is no pattern, which is noted.
fn check_pattern(
    name: &str,
    pattern: &str,
    item: &Item,
    field: &str,
    found: &mut Found,
) -> Option<()> {
    let problem = match NamePattern::new(pattern) {
        _ if pattern.is_empty() => "is no name".to_owned(),
        Ok(_) => return Some(()),
        Err(problem) => problem.escape_debug().to_string(),
    };
    let problem = format!("has {}, which {problem}", quoted(name));
    found.error(
        item.line,
        field,
        problem,
        "names of tools and patterns such as github__*",
    );
    None
}

#[cfg(test)]
mod tests;
