//! `cairn context remove`: messages of a context go.

use super::rpc;
use crate::client::Client;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::text::command;
use cairn_proto::orchestrator::CountMessagesResponse;
use cairn_rpc::text::escape;
use serde_json::json;

/// Messages by their numbers, the last one included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers {
    first: u32,
    last: u32,
}

impl Numbers {
    /// Reads `4` or `0-19`.
    ///
    /// # Errors
    /// What is allowed.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let numbers = first.parse().ok().zip(last.parse().ok());
        let numbers = numbers.filter(|(first, last)| first <= last);
        let (first, last) = numbers.ok_or("a number, or two such as 0-19")?;
        Ok(Self { first, last })
    }

    fn count(self) -> u32 {
        self.last - self.first + 1
    }
}

/// Removes the messages one by one, from a context that nobody else changes meanwhile.
pub(super) async fn run(
    client: &mut Client<'_>,
    session: &str,
    name: &str,
    numbers: Numbers,
) -> Result<(), CliError> {
    let counted = rpc::count(client, session, name).await?;
    let show = format!("context show {session} --context {name}");
    let show = command(client.context(), &show);
    let index = index(name, numbers, &counted);
    let index = index.map_err(|error| error.hint(format!("see them with: {show}")))?;
    let mut version = counted.version;
    for removed in 0..numbers.count() {
        let next = rpc::remove(client, session, name, index, version).await;
        version = next.map_err(|error| CliError {
            message: format!("{}; {removed} messages were removed before", error.message),
            ..error
        })?;
    }
    let removed = numbers.count();
    if client.context().json {
        return out::json(&json!({
            "session": session, "context": name, "removed": removed, "version": version,
        }));
    }
    let messages = match removed {
        1 => "1 message".to_owned(),
        _ => format!("{removed} messages"),
    };
    let place = format!("the context {name} of {session}");
    out::line(&format!("removed {messages} from {}", escape(&place)))
}

/// The place of the first message among those that can change. People see the numbers of all.
fn index(name: &str, numbers: Numbers, counted: &CountMessagesResponse) -> Result<u32, CliError> {
    let kept = counted.immutable + counted.compressed;
    if numbers.last >= counted.messages {
        let message = format!(
            "the context {name} has {} messages, from 0",
            counted.messages
        );
        return Err(CliError::usage(escape(&message)));
    }
    numbers.first.checked_sub(kept).ok_or_else(|| {
        let message = format!("the first {kept} messages of the context {name} never change");
        CliError::usage(escape(&message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_one_or_two() {
        for (text, want) in [
            ("4", Some((4, 4))),
            ("0-19", Some((0, 19))),
            ("3-3", Some((3, 3))),
            ("5-4", None),
            ("-1", None),
            ("1-", None),
            ("all", None),
            ("", None),
        ] {
            let read = Numbers::parse(text).ok();
            assert_eq!(read.map(|it| (it.first, it.last)), want, "{text}");
        }
    }

    #[test]
    fn the_first_messages_and_those_beyond_the_end_stay() {
        let counted = CountMessagesResponse {
            messages: 5,
            immutable: 1,
            compressed: 1,
            incremental: 3,
            ..CountMessagesResponse::default()
        };
        for (first, last, want) in [(2, 4, Some(0)), (4, 4, Some(2)), (1, 3, None), (2, 5, None)] {
            let index = index("main", Numbers { first, last }, &counted).ok();
            assert_eq!(index, want, "{first}-{last}");
        }
    }
}
