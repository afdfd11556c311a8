//! `cairn knowledge show`: a page with its text.

use super::not_found;
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::style::Style;
use crate::ui::text::block;
use crate::ui::time::age;
use cairn_proto::api::{GetPageRequest, Page};
use cairn_proto::json;
use cairn_proto::time::unix_ms;
use cairn_rpc::text::escape;
use cairn_rpc::{Clock as _, SystemClock};

/// The arguments of `cairn knowledge show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With --json one object: id, version, change_time, title, text, tags.

Examples:
  cairn knowledge show rotation
  cairn knowledge show rotation --json | jq -r .text > rotation.md")]
pub(super) struct Args {
    /// The page
    #[arg(value_name = "ID")]
    id: String,
}

/// Shows a page.
///
/// # Errors
/// No such page; the service's.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let request = GetPageRequest { id: args.id };
    let got = client.persist_knowledge(|mut knowledge| {
        let request = request.clone();
        async move { knowledge.get_page(request).await }
    });
    let got = got.await;
    client.finish().await;
    let got = got.map_err(|error| not_found(context, error))?;
    let page = got.page.unwrap_or_default();
    if context.json {
        return out::json(&json::value("cairn.api.v1.Page", Some(&page)));
    }
    let now = i64::try_from(SystemClock.unix_ms()).unwrap_or(i64::MAX);
    let mut lines = lines(&page, now, Style::new(context.color)).into_iter();
    lines.try_for_each(|line| out::line(&line))
}

/// The title, where the page stands, and its text.
fn lines(page: &Page, now: i64, style: Style) -> Vec<String> {
    let changed = page.change_time.map(|time| age(unix_ms(time), now));
    let changed = changed.unwrap_or_default();
    let (id, version) = (escape(&page.id), page.version);
    let mut lines = vec![
        style.strong(&escape(&page.title)),
        style.dim(&format!("{id}, version {version}, {changed}")),
    ];
    if !page.tags.is_empty() {
        let tags = page.tags.join(", ");
        lines.push(style.dim(&format!("tags: {}", escape(&tags))));
    }
    lines.push(String::new());
    lines.extend(block(&page.text).lines().map(str::to_owned));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::time::timestamp;

    #[test]
    fn a_page_is_shown_with_its_text_made_harmless() {
        let now = 1_800_000_000_000;
        let page = Page {
            id: "keys".to_owned(),
            version: 3,
            change_time: Some(timestamp(now)),
            title: "Rotate the keys".to_owned(),
            text: "Run it.\n\n\trotate\u{1b}[2J\n".to_owned(),
            tags: vec!["ops".to_owned(), "security".to_owned()],
        };
        let expected = [
            "Rotate the keys",
            "keys, version 3, now",
            "tags: ops, security",
            "",
            "Run it.",
            "",
            "\trotate\\u{1b}[2J",
        ];
        assert_eq!(lines(&page, now, Style::new(false)), expected);
    }
}
