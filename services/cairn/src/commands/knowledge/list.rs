//! `cairn knowledge list`.

use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::live::terminal_width;
use crate::ui::out;
use crate::ui::table::{Column, Table};
use crate::ui::text::command;
use crate::ui::time::age;
use cairn_proto::api::{ListPagesRequest, Page};
use cairn_proto::json;
use cairn_proto::time::unix_ms;
use cairn_rpc::{Clock as _, SystemClock};
use serde_json::Value;
use std::collections::BTreeMap;

/// Reason of the services: the list cannot continue, and begins anew.
const RELIST: &str = "RELIST";
/// How often a list begins anew.
const MOST_LISTS: u32 = 3;

/// The arguments of `cairn knowledge list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With --json one object for each page: id, version, change_time, title, tags.")]
pub(super) struct Args {}

/// Lists the pages by their ids.
///
/// # Errors
/// The store cannot be opened; the service's.
pub(super) async fn run(_: Args, context: &Context) -> Result<(), CliError> {
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let pages = all(&mut client).await;
    client.finish().await;
    let pages = pages?;
    if context.json {
        let mut pages = pages.iter();
        return pages.try_for_each(|page| out::json(&to_json(page)));
    }
    if pages.is_empty() {
        let put = command(context, "knowledge put FILE");
        return out::line(&format!("there is no page; store one with: {put}"));
    }
    let now = i64::try_from(SystemClock.unix_ms()).unwrap_or(i64::MAX);
    let mut lines = table(&pages, now).lines(terminal_width()).into_iter();
    lines.try_for_each(|line| out::line(&line))
}

/// A page as lists have it, without its text.
pub(super) fn to_json(page: &Page) -> Value {
    let mut fields = json::fields("cairn.api.v1.Page", page);
    fields.remove("text");
    Value::Object(fields)
}

/// All pages by their ids.
async fn all(client: &mut Client<'_>) -> Result<Vec<Page>, CliError> {
    let mut lists = 1;
    loop {
        match list(client).await {
            Err(error) if error.reason == RELIST && lists < MOST_LISTS => lists += 1,
            listed => return listed,
        }
    }
}

/// The same of one list. A page that changes in the meantime comes twice, and its last form counts.
async fn list(client: &mut Client<'_>) -> Result<Vec<Page>, CliError> {
    let mut found = BTreeMap::new();
    let mut request = ListPagesRequest::default();
    loop {
        let listed = client.persist_knowledge(|mut knowledge| {
            let request = request.clone();
            async move { knowledge.list_pages(request).await }
        });
        let listed = listed.await?;
        let pages = listed.pages.into_iter();
        found.extend(pages.map(|page| (page.id.clone(), page)));
        request.page_token = listed.next_page_token;
        if request.page_token.is_empty() {
            return Ok(found.into_values().collect());
        }
    }
}

fn table(pages: &[Page], now: i64) -> Table {
    let columns = ["PAGE", "TAGS", "CHANGED", "TITLE"];
    let mut table = Table::new(columns.map(Column::Left));
    for page in pages {
        let changed = page.change_time.map(|time| age(unix_ms(time), now));
        let title = match page.title.as_str() {
            "" => "stored by another version, and cannot be read by this one",
            title => title,
        };
        let tags = page.tags.join(", ");
        table.row([&page.id, &tags, &changed.unwrap_or_default(), title]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::time::timestamp;

    const NOW: i64 = 1_800_000_000_000;

    fn pages() -> [Page; 2] {
        let page = |id: &str, title: &str, tags: &[&str]| Page {
            id: id.to_owned(),
            version: 2,
            change_time: Some(timestamp(NOW - 60_000)),
            title: title.to_owned(),
            text: String::new(),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        };
        [
            page("keys", "Rotate\u{1b}[2J the keys", &["ops", "security"]),
            page("newer", "", &[]),
        ]
    }

    #[test]
    fn pages_are_listed_with_tags_and_age() {
        assert_eq!(
            table(&pages(), NOW).lines(None),
            [
                "PAGE   TAGS           CHANGED    TITLE",
                "keys   ops, security  1 min ago  Rotate\\u{1b}[2J the keys",
                "newer                 1 min ago  stored by another version, and cannot be read by this one",
            ]
        );
    }

    #[test]
    fn a_listed_page_has_no_text_as_json() {
        let [keys, _] = pages();
        let value = to_json(&keys);
        assert_eq!(value["id"], "keys");
        assert_eq!(value["version"], 2);
        assert_eq!(value["tags"][1], "security");
        assert!(value.get("text").is_none(), "{value}");
    }
}
