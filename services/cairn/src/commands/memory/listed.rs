//! `cairn memory list`: all keys with their values.

use super::{NOTHING, entry_json};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::live::terminal_width;
use crate::ui::out;
use crate::ui::table::{Column, Table};
use crate::ui::time::age;
use cairn_proto::memory::{ListMemoryRequest, MemoryEntry};
use cairn_proto::time::unix_ms;
use cairn_rpc::{Clock as _, SystemClock};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Lists the keys.
///
/// # Errors
/// The service's.
pub(super) async fn run(
    client: &Client<'_>,
    context: &Context,
    session: String,
) -> Result<ExitCode, CliError> {
    let request = ListMemoryRequest { session };
    let list = client.memory().list_memory(request).await?.into_inner();
    if context.json {
        for entry in &list.entries {
            out::json(&entry_json(entry))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if list.entries.is_empty() {
        out::line(NOTHING)?;
        return Ok(ExitCode::SUCCESS);
    }
    let now = i64::try_from(SystemClock.unix_ms()).unwrap_or(i64::MAX);
    let lines = table(&list.entries, now).lines(terminal_width());
    lines.into_iter().try_for_each(|line| out::line(&line))?;
    Ok(ExitCode::SUCCESS)
}

fn table(entries: &[MemoryEntry], now: i64) -> Table {
    let has_metadata = entries.iter().any(|entry| !entry.metadata.is_empty());
    let mut columns = vec![Column::Left("KEY"), Column::Left("CHANGED")];
    columns.extend(has_metadata.then_some(Column::Left("METADATA")));
    columns.push(Column::Left("VALUE"));
    let mut table = Table::new(columns);
    for entry in entries {
        let changed = entry.update_time.map(|time| age(unix_ms(time), now));
        let mut cells = vec![entry.key.clone(), changed.unwrap_or_default()];
        cells.extend(has_metadata.then(|| notes(&entry.metadata)));
        cells.push(entry.value.clone());
        table.cells(cells.into_iter());
    }
    table
}

fn notes(metadata: &BTreeMap<String, String>) -> String {
    let notes = metadata.iter().map(|(name, text)| format!("{name}={text}"));
    notes.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::time::timestamp;
    use std::slice;

    const NOW: i64 = 1_800_000_000_000;

    fn entry(key: &str, metadata: &[(&str, &str)]) -> MemoryEntry {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        MemoryEntry {
            key: key.to_owned(),
            value: "dry,\nshort".to_owned(),
            metadata: metadata.iter().map(owned).collect(),
            update_time: Some(timestamp(NOW - 60_000)),
            ..MemoryEntry::default()
        }
    }

    #[test]
    fn entries_are_lines_and_metadata_has_a_column_where_there_is_some() {
        let plain = entry("tone", &[]);
        assert_eq!(
            table(slice::from_ref(&plain), NOW).lines(None),
            ["KEY   CHANGED    VALUE", "tone  1 min ago  dry,\\nshort"]
        );
        let untimed = MemoryEntry {
            update_time: None,
            ..entry("old", &[])
        };
        let noted = entry("plan", &[("source", "mail"), ("trust", "low")]);
        assert_eq!(
            table(&[untimed, noted, plain], NOW).lines(Some(50)),
            [
                "KEY   CHANGED    METADATA                VALUE",
                "old                                      dry,\\nsh…",
                "plan  1 min ago  source=mail, trust=low  dry,\\nsh…",
                "tone  1 min ago                          dry,\\nsh…",
            ]
        );
    }
}
