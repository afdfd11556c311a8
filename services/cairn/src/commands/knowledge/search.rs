//! `cairn knowledge search`: pages by the words of a query.

use super::check_tags;
use super::list::to_json;
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::live::{terminal_width, wrap};
use crate::ui::out;
use crate::ui::style::Style;
use crate::ui::text::{block, command};
use crate::ui::time::age;
use cairn_knowledge::has_terms;
use cairn_proto::api::{Page, PageHit, SearchPagesRequest};
use cairn_proto::time::unix_ms;
use cairn_rpc::text::{clip, escape};
use cairn_rpc::{Clock as _, SystemClock};
use cairn_views::figures;
use clap::value_parser;
use serde_json::{Value, json};
use std::ops::RangeInclusive;

/// Scores that a hit can be asked for.
const SCORES: RangeInclusive<f64> = 0.0..=1.0;
/// Blanks before each line of a hit but its first, below the title.
const INDENT: &str = "          ";
/// Fewest columns of a text, however narrow the terminal is.
const NARROWEST: usize = 20;
/// Most bytes of a query in a message.
const SHOWN: usize = 120;

/// The arguments of `cairn knowledge search`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A page is found if it has a word of the query in its title, its tags or its text. The more of them it has, and
the rarer they are, the higher is its score, which is above 0 and at most 1. Case and English endings do not
matter, and common words such as \"the\" do not count. Chinese, Japanese and Korean are found by pairs of
characters. The exit code is 0 also if nothing is found.

With --json one object for each hit, the best first: rank, score, id, title, tags, version, change_time,
excerpt.

Examples:
  cairn knowledge search how are keys rotated
  cairn knowledge search backup tape --tag ops --max 3")]
pub(super) struct Args {
    /// The words to look for
    #[arg(value_name = "QUERY", required = true)]
    query: Vec<String>,
    /// Only pages with this tag; several times for pages that have all of them
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Show at most so many pages, up to 100 [default: 5]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=100))]
    max: Option<u32>,
    /// Only pages with at least this score, from 0 to 1 [default: knowledge.min_score of the settings]
    #[arg(long, value_name = "SCORE", value_parser = score)]
    min_score: Option<f64>,
}

fn score(text: &str) -> Result<f64, String> {
    let score = text.parse::<f64>().ok();
    let score = score.filter(|score| SCORES.contains(score));
    score.ok_or_else(|| "a number from 0 to 1".to_owned())
}

/// Finds pages, and shows each with the lines that fit best.
///
/// # Errors
/// A tag that no page has; the store cannot be opened; the service's.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    check_tags(&args.tags)?;
    let request = SearchPagesRequest {
        query: args.query.join(" "),
        tags: args.tags,
        max: args.max.unwrap_or_default(),
        min_score: args.min_score,
    };
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let found = search(&mut client, &request, !context.json).await;
    client.finish().await;
    let (hits, is_hidden) = found?;
    if context.json {
        let mut ranked = (1..).zip(&hits);
        return ranked.try_for_each(|(rank, hit)| out::json(&hit_json(rank, hit)));
    }
    let lines = if hits.is_empty() {
        let list = command(context, "knowledge list");
        nothing_found(&request, is_hidden, &list)
    } else {
        let now = i64::try_from(SystemClock.unix_ms()).unwrap_or(i64::MAX);
        lines(&hits, now, terminal_width(), Style::new(context.color))
    };
    lines.into_iter().try_for_each(|line| out::line(&line))
}

/// The hits. If there are none and it is to be explained, also whether the settings of the server hide some.
async fn search(
    client: &mut Client<'_>,
    request: &SearchPagesRequest,
    explains: bool,
) -> Result<(Vec<PageHit>, bool), CliError> {
    let hits = ask(client, request).await?;
    if !explains || !hits.is_empty() || request.min_score.is_some() {
        return Ok((hits, false));
    }
    let any = SearchPagesRequest {
        max: 1,
        min_score: Some(0.0),
        ..request.clone()
    };
    let is_hidden = !ask(client, &any).await?.is_empty();
    Ok((hits, is_hidden))
}

async fn ask(
    client: &mut Client<'_>,
    request: &SearchPagesRequest,
) -> Result<Vec<PageHit>, CliError> {
    let found = client.persist_knowledge(|mut knowledge| {
        let request = request.clone();
        async move { knowledge.search_pages(request).await }
    });
    Ok(found.await?.hits)
}

fn hit_json(rank: u32, hit: &PageHit) -> Value {
    let page = hit.page.clone().unwrap_or_default();
    let mut value = to_json(&page);
    value["rank"] = json!(rank);
    value["score"] = json!(hit.score);
    value["excerpt"] = json!(hit.excerpt);
    value
}

/// What to try next depends on what narrowed the search.
fn nothing_found(asked: &SearchPagesRequest, is_hidden: bool, list: &str) -> Vec<String> {
    let tags = (!asked.tags.is_empty()).then_some("without --tag");
    let least = asked
        .min_score
        .is_some_and(|least| least > 0.0)
        .then_some("with a lower --min-score");
    let ways: Vec<&str> = ["with other words"]
        .into_iter()
        .chain(tags)
        .chain(least)
        .collect();
    let advice = if !has_terms(&asked.query) {
        "the query has only common words, which do not count; use names and terms of the subject"
            .to_owned()
    } else if is_hidden {
        "pages have words of it, but lower scores than knowledge.min_score of the settings; see them with --min-score 0"
            .to_owned()
    } else {
        format!("try it {}", ways.join(", or "))
    };
    vec![
        format!("no page was found for \"{}\"", clip(&asked.query, SHOWN)),
        format!("  {advice}"),
        format!("  see the pages with: {list}"),
    ]
}

/// Each hit with its rank, and a blank line between two hits.
fn lines(hits: &[PageHit], now: i64, columns: Option<usize>, style: Style) -> Vec<String> {
    let room = columns.map(|columns| columns.saturating_sub(INDENT.len() + 1).max(NARROWEST));
    let mut lines = Vec::new();
    for (rank, hit) in (1..).zip(hits) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(of_hit(rank, hit, now, room, style));
    }
    lines
}

fn of_hit(rank: u32, hit: &PageHit, now: i64, room: Option<usize>, style: Style) -> Vec<String> {
    let page = hit.page.clone().unwrap_or_default();
    let titles = broken(&escape(&page.title), room).into_iter();
    let titles = titles.map(|line| style.strong(&line));
    let places = broken(&place(&page, now), room).into_iter();
    let places = places.map(|line| style.dim(&line));
    let excerpt = block(&hit.excerpt).replace('\t', "    ");
    let excerpt = excerpt.trim_matches('\n').lines();
    let excerpt = excerpt.flat_map(|line| broken(line, room));
    let score = figures::score(hit.score);
    let begin = format!("{rank:>2} {score:>5}  ");
    let begins = std::iter::once(begin.as_str()).chain(std::iter::repeat(INDENT));
    let texts = titles.chain(places).chain(excerpt);
    let lines = begins.zip(texts);
    let lines = lines.map(|(begin, text)| format!("{begin}{text}").trim_end().to_owned());
    lines.collect()
}

/// The id, the tags and the age.
fn place(page: &Page, now: i64) -> String {
    let changed = page.change_time.map(|time| age(unix_ms(time), now));
    let tags = match page.tags.is_empty() {
        true => String::new(),
        false => format!("  [{}]", escape(&page.tags.join(", "))),
    };
    let (id, changed) = (escape(&page.id), changed.unwrap_or_default());
    format!("{id}{tags}  {changed}").trim_end().to_owned()
}

/// The text in lines of at most so many columns.
fn broken(text: &str, room: Option<usize>) -> Vec<String> {
    match room {
        Some(room) => wrap(text, room),
        None => vec![text.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::time::timestamp;

    const NOW: i64 = 1_800_000_000_000;

    fn hit(id: &str, score: f64, excerpt: &str, tags: &[&str]) -> PageHit {
        let page = Page {
            id: id.to_owned(),
            version: 2,
            change_time: Some(timestamp(NOW - 60_000)),
            title: "Rotate the keys of the harbour".to_owned(),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            ..Page::default()
        };
        PageHit {
            page: Some(page),
            score,
            excerpt: excerpt.to_owned(),
        }
    }

    fn hits() -> [PageHit; 2] {
        let excerpt = "…\nRun `rotate` at the first of each month.\n\u{1b}[2J\n";
        [
            hit("keys", 0.625, excerpt, &["ops", "security"]),
            hit("old/keys", 0.004, "Keys.", &[]),
        ]
    }

    #[test]
    fn hits_are_shown_with_rank_score_place_and_excerpt() {
        assert_eq!(
            lines(&hits(), NOW, None, Style::new(false)),
            [
                " 1  0.62  Rotate the keys of the harbour",
                "          keys  [ops, security]  1 min ago",
                "          …",
                "          Run `rotate` at the first of each month.",
                "          \\u{1b}[2J",
                "",
                " 2 <0.01  Rotate the keys of the harbour",
                "          old/keys  1 min ago",
                "          Keys.",
            ]
        );
    }

    #[test]
    fn on_a_terminal_no_line_is_wider_than_it() {
        let lines = lines(&hits(), NOW, Some(36), Style::new(false));
        assert!(
            lines.iter().all(|line| line.chars().count() < 36),
            "{lines:?}"
        );
        assert_eq!(lines[0], " 1  0.62  Rotate the keys of the");
        assert_eq!(lines[1], "          harbour");
        let coloured = super::lines(&hits(), NOW, Some(36), Style::new(true));
        assert_eq!(coloured.len(), lines.len());
    }

    #[test]
    fn nothing_found_says_what_to_try() {
        let mut asked = SearchPagesRequest {
            query: "tape\u{1b}".to_owned(),
            ..SearchPagesRequest::default()
        };
        let list = "cairn knowledge list";
        let said = nothing_found(&asked, false, list);
        assert_eq!(said[0], "no page was found for \"tape\\u{1b}\"");
        assert_eq!(said[1], "  try it with other words");
        assert_eq!(said[2], "  see the pages with: cairn knowledge list");
        let hidden = nothing_found(&asked, true, list);
        assert!(hidden[1].contains("knowledge.min_score"), "{hidden:?}");
        asked.tags = vec!["ops".to_owned()];
        asked.min_score = Some(0.5);
        let expected = "  try it with other words, or without --tag, or with a lower --min-score";
        assert_eq!(nothing_found(&asked, false, list)[1], expected);
        asked.query = "how is the".to_owned();
        let common = nothing_found(&asked, false, list);
        assert!(common[1].contains("only common words"), "{common:?}");
    }

    #[test]
    fn a_hit_as_json_is_flat() {
        let [first, _] = hits();
        let value = hit_json(1, &first);
        assert_eq!(value["rank"], 1);
        assert_eq!(value["score"], 0.625);
        assert_eq!(value["id"], "keys");
        assert_eq!(value["tags"][0], "ops");
        assert!(value.get("text").is_none(), "{value}");
    }

    #[test]
    fn a_score_is_from_0_to_1() {
        assert_eq!(score("0.25"), Ok(0.25));
        for wrong in ["", "many", "1.01", "-0.1", "NaN"] {
            assert!(score(wrong).is_err(), "{wrong}");
        }
    }
}
