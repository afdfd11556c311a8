//! `cairn hook show`.

use super::list::{agents, points, source_name, to_json, with_warning};
use super::not_found;
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::style::Style;
use crate::ui::text::quoted;
use crate::ui::time::{age, span};
use cairn_proto::api::{GetHookRequest, Hook, HookOnError};
use cairn_proto::time::unix_ms;
use cairn_rpc::text::escape;
use cairn_rpc::{Clock as _, SystemClock};

/// The arguments of `cairn hook show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With --json one object: definition (name, points, agents, tools, url, timeout, on_error), source, digest,
version, change_time, command, problem (why runs cannot ask it now, or not about its tools; else empty).")]
pub(super) struct Args {
    /// The hook
    #[arg(value_name = "NAME")]
    name: String,
}

/// Shows a hook.
///
/// # Errors
/// No such hook; the service's.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let hook = get(&mut client, args.name).await;
    client.finish().await;
    let hook = hook.map_err(|error| not_found(context, error))?;
    let hook = with_warning(hook, context.config());
    if context.json {
        return out::json(&to_json(&hook));
    }
    let now = i64::try_from(SystemClock.unix_ms()).unwrap_or(i64::MAX);
    let mut lines = lines(&hook, now, Style::new(context.color)).into_iter();
    lines.try_for_each(|line| out::line(&line))
}

/// Reads one hook.
///
/// # Errors
/// No such hook; the service's.
pub(super) async fn get(client: &mut Client<'_>, name: String) -> Result<Hook, CliError> {
    let request = GetHookRequest { name };
    let got = client.persist_hooks(|mut hooks| {
        let request = request.clone();
        async move { hooks.get_hook(request).await }
    });
    Ok(got.await?.hook.unwrap_or_default())
}

fn lines(hook: &Hook, now: i64, style: Style) -> Vec<String> {
    let definition = hook.definition.clone().unwrap_or_default();
    let origin = match hook.change_time {
        None => source_name(hook.source()).to_owned(),
        Some(time) => {
            let (version, changed) = (hook.version, age(unix_ms(time), now));
            format!(
                "{}, version {version}, {changed}",
                source_name(hook.source())
            )
        }
    };
    let name = style.strong(&escape(&definition.name));
    let mut lines = vec![format!("{name} ({origin})")];
    let words: Vec<String> = hook.command.iter().map(|word| quoted(word)).collect();
    let tools = match definition.tools.as_slice() {
        [] => String::new(),
        tools => escape(&tools.join(", ")).into_owned(),
    };
    let timeout = definition.timeout.as_ref().map(millis);
    let fields = [
        ("asked at", points(&definition)),
        ("tools", tools),
        (
            "agents",
            escape(&agents(definition.agents.as_ref())).into_owned(),
        ),
        ("command", words.join(" ")),
        ("url", escape(&definition.url).into_owned()),
        ("timeout", timeout.map(span).unwrap_or_default()),
        ("on error", on_error(definition.on_error()).to_owned()),
        ("digest", escape(&hook.digest).into_owned()),
        ("problem", escape(&hook.problem).into_owned()),
    ];
    let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
    lines.extend(fields.map(|(label, value)| format!("  {label:<9} {value}")));
    lines
}

/// In milliseconds.
pub(super) fn millis(time: &prost_types::Duration) -> u64 {
    let seconds = u64::try_from(time.seconds).unwrap_or_default();
    let nanos = u64::try_from(time.nanos).unwrap_or_default();
    seconds * 1_000 + nanos / 1_000_000
}

fn on_error(chosen: HookOnError) -> &'static str {
    match chosen {
        HookOnError::Unspecified => "block at Pre…, otherwise proceed",
        HookOnError::Block => "block",
        HookOnError::Proceed => "proceed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::api::{HookDefinition, HookSource};
    use cairn_proto::event::HookPoint;

    #[test]
    fn a_hook_is_shown_with_what_it_is() {
        let hook = Hook {
            definition: Some(HookDefinition {
                name: "guard".to_owned(),
                points: vec![HookPoint::PreToolCall.into()],
                tools: vec!["shell_exec".to_owned()],
                timeout: Some(prost_types::Duration {
                    seconds: 5,
                    nanos: 0,
                }),
                ..HookDefinition::default()
            }),
            source: HookSource::Program.into(),
            digest: "ab".to_owned(),
            command: vec!["python3".to_owned(), "my guard.py".to_owned()],
            ..Hook::default()
        };
        assert_eq!(
            lines(&hook, 0, Style::new(false)),
            [
                "guard (program)",
                "  asked at  PreToolCall",
                "  tools     shell_exec",
                "  agents    all",
                "  command   python3 'my guard.py'",
                "  timeout   5.0 s",
                "  on error  block at Pre…, otherwise proceed",
                "  digest    ab",
            ]
        );
    }
}
