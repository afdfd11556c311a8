//! `cairn context remove`: messages of a context go.

use super::super::confirm::{agree, is_at_terminal};
use super::rpc;
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::text::command;
use cairn_engine::limits::MAX_REMOVED;
use cairn_engine::text::counted;
use cairn_proto::orchestrator::CountMessagesResponse;
use cairn_rpc::text::escape;
use serde_json::json;

/// The arguments of `cairn context remove`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
At a terminal you are asked first. Up to 1000 messages are removed at once or not at all.

With --json one object: session, context, removed, version.")]
pub(super) struct Args {
    /// The session: its id or a unique beginning of it
    #[arg(value_name = "SESSION")]
    pub(super) session: String,
    /// The context
    #[arg(value_name = "NAME")]
    name: String,
    /// A message by its number in cairn context show, or several such as 0-19
    #[arg(value_name = "NUMBERS", value_parser = Numbers::parse)]
    numbers: Numbers,
    /// Remove them only from this version of the context; cairn context list --json has it
    #[arg(long = "version", value_name = "N")]
    expected: Option<u64>,
    /// Remove them without asking
    #[arg(long, short)]
    yes: bool,
}

impl Args {
    /// Asks the person at the terminal, while nothing holds the store. What is removed then is what the person
    /// was asked about.
    ///
    /// # Errors
    /// No such session, context or messages; the person does not agree.
    pub(super) async fn agree(&mut self, context: &Context) -> Result<(), CliError> {
        if self.yes || !is_at_terminal(context) {
            return Ok(());
        }
        let mut reader = Client::attach(context, Access::Read).await?;
        let asked = self.question(&mut reader).await;
        reader.finish().await;
        let (question, version) = asked?;
        agree(context, &escape(&question)).await?;
        self.expected = self.expected.or(Some(version));
        Ok(())
    }

    /// What the person is asked, and the version of the context that it is about.
    async fn question(&self, reader: &mut Client<'_>) -> Result<(String, u64), CliError> {
        let session = reader.resolve(Some(&self.session)).await?;
        let counted = rpc::count(reader, &session, &self.name).await?;
        place(reader, &session, &self.name, self.numbers, &counted)?;
        let (messages, name) = (self.numbers.shown(), &self.name);
        let question = format!("Remove {messages} from the context {name} of {session}?");
        Ok((question, counted.version))
    }
}

/// Messages by their numbers, the last one included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbers {
    first: u32,
    last: u32,
}

impl Numbers {
    /// Reads `4` or `0-19`.
    ///
    /// # Errors
    /// What is allowed.
    fn parse(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let numbers = first.parse().ok().zip(last.parse().ok());
        let numbers = numbers.filter(|(first, last)| first <= last);
        let (first, last) = numbers.ok_or("a number, or two such as 0-19")?;
        Ok(Self { first, last })
    }

    fn count(self) -> u32 {
        (self.last - self.first).saturating_add(1)
    }

    /// `message 4`, `20 messages, 0 to 19,`.
    fn shown(self) -> String {
        match self.count() {
            1 => format!("message {}", self.first),
            count => format!("{count} messages, {} to {},", self.first, self.last),
        }
    }
}

/// Removes the messages from a context that no other client changes meanwhile.
pub(super) async fn run(
    client: &mut Client<'_>,
    session: &str,
    args: Args,
) -> Result<(), CliError> {
    let Args { name, numbers, .. } = args;
    let has = rpc::count(client, session, &name).await?;
    let index = place(client, session, &name, numbers, &has)?;
    let mut version = args.expected.unwrap_or(has.version);
    let most = u32::try_from(MAX_REMOVED).unwrap_or(u32::MAX);
    let mut removed = 0;
    while removed < numbers.count() {
        let count = (numbers.count() - removed).min(most);
        let next = rpc::remove(client, session, &name, (index, count), version).await;
        version = next.map_err(|error| match removed {
            0 => error,
            _ => CliError {
                message: format!("{}; {removed} messages were removed before", error.message),
                ..error
            },
        })?;
        removed += count;
    }
    if client.context().json {
        return out::json(&json!({
            "session": session, "context": name, "removed": removed, "version": version,
        }));
    }
    let messages = counted(removed, "message");
    let place = format!("the context {name} of {session}");
    out::line(&format!("removed {messages} from {}", escape(&place)))
}

/// The place of the first message among those that can change, with the way to see the messages if there is
/// none.
fn place(
    client: &Client<'_>,
    session: &str,
    name: &str,
    numbers: Numbers,
    has: &CountMessagesResponse,
) -> Result<u32, CliError> {
    let show = format!("context show {session} --context {name}");
    let show = command(client.context(), &show);
    index(name, numbers, has).map_err(|error| error.hint(format!("see them with: {show}")))
}

/// The place of the first message among those that can change. People see the numbers of all.
fn index(name: &str, numbers: Numbers, has: &CountMessagesResponse) -> Result<u32, CliError> {
    let kept = has.immutable + has.compressed;
    if numbers.last >= has.messages {
        let numbers = match has.messages {
            0 => String::new(),
            1 => ", with the number 0".to_owned(),
            more => format!(", with the numbers 0 to {}", more - 1),
        };
        let messages = counted(has.messages, "message");
        let message = format!("the context {name} has {messages}{numbers}");
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
    fn a_person_is_asked_about_the_numbers() {
        let shown = |text| Numbers::parse(text).unwrap().shown();
        assert_eq!(shown("4"), "message 4");
        assert_eq!(shown("0-19"), "20 messages, 0 to 19,");
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

    #[test]
    fn an_error_names_the_numbers_that_there_are() {
        for (messages, want) in [
            (0, "the context main has 0 messages"),
            (1, "the context main has 1 message, with the number 0"),
            (
                14,
                "the context main has 14 messages, with the numbers 0 to 13",
            ),
        ] {
            let has = CountMessagesResponse {
                messages,
                ..CountMessagesResponse::default()
            };
            let (first, last) = (100, 100);
            let error = index("main", Numbers { first, last }, &has).unwrap_err();
            assert_eq!(error.message, want);
        }
    }
}
