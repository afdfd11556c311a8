//! `search_tools`: tools that are not offered from the start.

use super::{Answers, StateTool, arguments, invalid};
use crate::decide::Decision;
use crate::event::{AttemptRef, ToolsFound};
use crate::limits::{MAX_FOUND, MAX_QUESTION};
use serde::Deserialize;

/// The name of the tool that finds tools.
pub const SEARCH_TOOLS: &str = "search_tools";

pub(super) const TOOL: StateTool = StateTool {
    name: SEARCH_TOOLS,
    description: "Finds further tools by what they do. There are more tools than those that you see; what this finds can be called from your next reply on.",
    parameters: r#"{"type":"object","properties":{"query":{"type":"string","description":"Words of what the tool is to do: 'create issue github'."}},"required":["query"],"additionalProperties":false}"#,
    answers: Answers::InTransition(|decision, name, call| {
        let Arguments { query } = arguments(call)?;
        if query.trim().is_empty() || query.len() > MAX_QUESTION {
            return Err(invalid(format!("a query has 1 to {MAX_QUESTION} bytes")));
        }
        let found = decision.find_tools(name.attempt, &query);
        if found.is_empty() {
            return Ok(Some("no further tool fits; try other words".to_owned()));
        }
        let lines = found
            .iter()
            .map(|(name, about, parameters)| format!("{name}: {about}\n  arguments: {parameters}"));
        let text = lines.collect::<Vec<_>>().join("\n");
        let tools = found.into_iter().map(|(name, ..)| name).collect();
        decision.emit(ToolsFound {
            attempt: name.attempt,
            tools,
        })?;
        Ok(Some(text))
    }),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    query: String,
}

impl Decision<'_> {
    /// The tools that fit best: name, description, schema of the arguments.
    fn find_tools(&self, attempt: AttemptRef, query: &str) -> Vec<(String, String, String)> {
        let query = words(query);
        let further = self.facts.tools.keys();
        let further = further.filter(|name| self.offers(attempt, name));
        let scored = further.filter_map(|name| {
            // What came after the attempt began is not among its tools.
            let (about, parameters) = self.facts.tool(attempt, name)?.deferred.as_ref()?;
            let score = score(&query, name, about);
            (score > 0).then_some((score, name, about, parameters))
        });
        let mut scored: Vec<_> = scored.collect();
        scored.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        let best = scored.into_iter().take(MAX_FOUND);
        best.map(|(_, name, about, parameters)| (name.clone(), about.clone(), parameters.clone()))
            .collect()
    }
}

/// A word of the name counts three times as much as one of the description.
fn score(query: &[String], name: &str, about: &str) -> usize {
    let (name, about) = (words(name), words(about));
    let counted = query.iter().map(|word| {
        let fits =
            |other: &String| other == word || (word.len() > 3 && other.starts_with(word.as_str()));
        3 * usize::from(name.iter().any(fits)) + usize::from(about.iter().any(fits))
    });
    counted.sum()
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let mut words: Vec<_> = words
        .filter(|word| word.len() > 1)
        .map(str::to_lowercase)
        .collect();
    words.sort_unstable();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_found_by_words_of_its_name_first() {
        let score = |query: &str, name: &str, about: &str| score(&words(query), name, about);
        assert!(
            score("create issue", "github__create_issue", "Opens one.")
                > score("create issue", "jira__add", "Creates an issue.")
        );
        assert_eq!(score("weather", "github__create_issue", "Opens one."), 0);
        assert!(
            score("issue", "a__b", "Lists issues.") > 0,
            "beginnings of words count"
        );
    }
}
