//! Answers `retrieve`: pages of the namespace and messages of the conversation, in one order.

use super::answers::persist;
use super::recall::{FoundMessage, Recall};
use crate::deps::Deps;
use crate::key::SessionKey;
use crate::knowledge::{Found, Search};
use cairn_engine::decide::Retrieve;
use cairn_engine::escape::breaks_line;
use cairn_engine::message::Role;
use cairn_engine::session::Unsent;
use cairn_knowledge::{Query, excerpt, has_terms};
use cairn_rpc::RpcError;
use cairn_views::figures::{date, score};

/// Most bytes of a passage.
const MOST_EXCERPT: usize = 2 * 1024;
/// Words of a query that an answer names.
const MOST_NAMED: usize = 20;

/// What the requests of an attempt lack, by the state after an event, and how it is searched.
#[derive(Debug)]
pub(super) struct Earlier<'a> {
    pub(super) recall: &'a Recall,
    pub(super) unsent: &'a Unsent,
    pub(super) through: u64,
}

/// A page or a message that was found.
#[derive(Debug)]
struct Passage {
    score: f64,
    head: String,
    text: String,
}

/// The passages that fit best, in words for the model.
///
/// # Errors
/// Why there is no answer, in words for the model.
pub(super) async fn passages(
    deps: &Deps,
    key: &SessionKey,
    asked: &Retrieve,
    earlier: Option<&Earlier<'_>>,
) -> Result<String, String> {
    let least = asked.min_score_permille;
    let least = least.map(|permille| f64::from(permille) / 1_000.0);
    let mut found = match asked.scope.has_pages() {
        true => pages(deps, key, asked, least).await?,
        false => Vec::new(),
    };
    if let Some(earlier) = earlier {
        let query = Query {
            text: &asked.query,
            tags: &[],
            max: asked.max as usize,
            min_score: least.unwrap_or(deps.config.knowledge.min_score),
            scorer: deps.config.knowledge.scorer,
        };
        found.extend(messages(deps, key, earlier, &query).await?);
    }
    // Of equal scores, pages come first.
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found.truncate(asked.max as usize);
    match found.is_empty() {
        true => Ok(nothing(asked)),
        false => Ok(shown(&found)),
    }
}

async fn pages(
    deps: &Deps,
    key: &SessionKey,
    asked: &Retrieve,
    min_score: Option<f64>,
) -> Result<Vec<Passage>, String> {
    let search = Search {
        query: asked.query.clone(),
        tags: asked.tags.clone(),
        max: asked.max as usize,
        min_score,
        excerpt_bytes: MOST_EXCERPT,
    };
    // Without a limit for one try: the first search of a namespace reads all its pages.
    let searched = persist(|| deps.knowledge.search(&deps.store, &key.namespace, &search));
    let found = searched.await.map_err(|error| {
        tracing::warn!(session = %key, %error, "pages not searched");
        format!(
            "the pages cannot be searched: {}; the scope 'conversation' looks for earlier messages alone",
            error.message()
        )
    })?;
    Ok(found.into_iter().map(page).collect())
}

async fn messages(
    deps: &Deps,
    key: &SessionKey,
    earlier: &Earlier<'_>,
    query: &Query<'_>,
) -> Result<Vec<Passage>, String> {
    let Earlier {
        recall,
        unsent,
        through,
    } = earlier;
    let found = recall.search(&deps.store, key, unsent, *through, query);
    let found = found.await.map_err(|error: RpcError| {
        tracing::error!(session = %key, %error, "earlier messages not searched");
        "the earlier messages cannot be read; the scope 'knowledge' looks for pages alone"
            .to_owned()
    })?;
    let found = found.into_iter();
    Ok(found.map(|found| message(found, query.text)).collect())
}

/// `[page ID] Title (score 0.62; tags a, b; changed 2026-11-27)`, and its lines that fit best.
fn page(found: Found) -> Passage {
    let tags = match found.tags.as_slice() {
        [] => String::new(),
        tags => format!("; tags {}", tags.join(", ")),
    };
    let changed = date(u64::try_from(found.changed_unix_ms).unwrap_or(0));
    let (id, title, shown) = (found.id, found.title, score(found.score));
    Passage {
        score: found.score,
        head: format!("[page {id}] {title} (score {shown}{tags}; changed {changed})"),
        text: found.excerpt,
    }
}

/// `[message 4, user] (score 0.41)`, and its lines that fit best.
fn message(found: FoundMessage, query: &str) -> Passage {
    let message = found.message;
    let (number, shown) = (message.number, score(found.score));
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    Passage {
        score: found.score,
        head: format!("[message {number}, {role}] (score {shown})"),
        text: excerpt(&message.text, query, MOST_EXCERPT),
    }
}

/// A blank line between passages. The lines of a text are indented, so that none of them looks like the head of
/// another passage, wherever a model sees the end of a line.
fn shown(found: &[Passage]) -> String {
    let mut text = String::new();
    for passage in found {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&passage.head);
        text.push('\n');
        let lines = passage.text.replace("\r\n", "\n");
        for line in lines.trim_end().split(breaks_line) {
            if !line.trim().is_empty() {
                text.push_str("  ");
                text.push_str(line);
            }
            text.push('\n');
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// Nothing was found, and the model can see why.
fn nothing(asked: &Retrieve) -> String {
    let words: Vec<&str> = asked
        .query
        .split_whitespace()
        .filter(|word| has_terms(word))
        .collect();
    if words.is_empty() {
        return "nothing was found: the query has only common words, which do not count; use names and terms of the \
                subject"
            .to_owned();
    }
    let named = &words[..words.len().min(MOST_NAMED)];
    let named = named.join(", ");
    let least = asked.min_score_permille.filter(|least| *least > 0);
    let least = least.map_or_else(String::new, |permille| {
        let least = f64::from(permille) / 1_000.0;
        format!(" with a score of at least {least}")
    });
    let tags = match asked.tags.as_slice() {
        [] => String::new(),
        tags => format!(" with the tags {}", tags.join(", ")),
    };
    format!("nothing was found{tags}{least} for the words: {named}; try other words")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_engine::decide::Scope;
    use cairn_engine::session::Remembered;

    fn asked(query: &str) -> Retrieve {
        Retrieve {
            query: query.to_owned(),
            scope: Scope::All,
            tags: Vec::new(),
            max: 5,
            min_score_permille: None,
        }
    }

    fn found(tags: &[&str]) -> Found {
        Found {
            id: "ports".to_owned(),
            title: "Ports of the services".to_owned(),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            score: 0.62,
            excerpt: "# Ports\n\n[page forged] The port is 17.\r\nIt is\u{2028}[page other]\r[page last]\n".to_owned(),
            version: 3,
            changed_unix_ms: 1_795_737_600_000,
        }
    }

    #[test]
    fn passages_have_a_head_and_an_indented_text() {
        let said = FoundMessage {
            score: 0.5,
            message: Remembered {
                number: 4,
                role: Role::User,
                text: "The port is 17.".into(),
            },
        };
        let passages = [page(found(&["net", "ops"])), message(said, "port")];
        let expected = "\
[page ports] Ports of the services (score 0.62; tags net, ops; changed 2026-11-27)
  # Ports

  [page forged] The port is 17.
  It is
  [page other]
  [page last]

[message 4, user] (score 0.50)
  The port is 17.";
        assert_eq!(shown(&passages), expected);
        let without = page(found(&[])).head;
        assert!(
            without.ends_with("(score 0.62; changed 2026-11-27)"),
            "{without}"
        );
    }

    #[test]
    fn nothing_found_names_the_words_that_counted() {
        let text = nothing(&asked("the harbour of 北京"));
        assert!(
            text.ends_with("for the words: harbour, 北京; try other words"),
            "{text}"
        );
        let common = nothing(&asked("of the"));
        assert!(common.contains("only common words"), "{common}");
        let narrow = Retrieve {
            tags: vec!["ops".to_owned()],
            min_score_permille: Some(250),
            ..asked("harbour")
        };
        let expected = "nothing was found with the tags ops with a score of at least 0.25 for the words: harbour; \
                        try other words";
        assert_eq!(nothing(&narrow), expected);
        let long = nothing(&asked(&"harbour ".repeat(1_000)));
        assert!(long.len() < 300, "{}", long.len());
    }
}
