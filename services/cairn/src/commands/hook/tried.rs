//! `cairn hook try`: one hook is asked about an example.

mod example;

use super::{not_found, show};
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::settings::hooks::point_meant;
use crate::settings::{HookSettings, hook_executor};
use crate::ui::hooks::point_name;
use crate::ui::out;
use crate::ui::text::block;
use crate::ui::time::span;
use cairn_engine::hooks::{Mutation, Point, Verdict, fault_of};
use cairn_hooks::{Definition, HookError, Means, OnError, Policy, point_names};
use cairn_proto::api::{Hook, HookOnError};
use cairn_proto::event::HookMutation;
use cairn_proto::json;
use cairn_rpc::text::escape;
use clap::builder::NonEmptyStringValueParser;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The arguments of `cairn hook try`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The hook is asked once, as a run would ask it, with the program, the variables and the time limit of its
settings. No session is made or changed. The exit code is 0 if the hook answers, and 1 if it fails.

With --json one object: hook, point, answer (proceed, mutate, skip, require_approval, block; null if it failed),
text (the reason or the result), mutation (what it changes, or null), problem (why it failed, or null),
duration_ms.

Examples:
  cairn hook try guard --point PreToolCall --arguments '{\"command\": \"git push --force\"}'
  cairn hook try format --point PostToolCall --tool write_file --arguments '{\"path\": \"a.json\"}'
  cairn hook try notify --point OnTurnEnd --text \"All tests pass.\"")]
pub(super) struct Args {
    /// The hook
    #[arg(value_name = "NAME")]
    name: String,
    /// The point at which it is asked; see cairn hook points
    #[arg(long, value_name = "POINT", value_parser = point)]
    point: Point,
    /// The tool of the example's call
    #[arg(long, value_name = "NAME", default_value = "shell_exec", value_parser = NonEmptyStringValueParser::new())]
    tool: String,
    /// The arguments of the example's call, a JSON object
    #[arg(long, value_name = "JSON", default_value = "{\"command\": \"ls\"}", value_parser = arguments)]
    arguments: String,
    /// The text of the example: what a person asks, a model replies, a tool gives or an error says
    #[arg(long, value_name = "TEXT", default_value = "An example.", value_parser = NonEmptyStringValueParser::new())]
    text: String,
}

fn point(text: &str) -> Result<Point, String> {
    let mut points = Point::ALL.iter().copied();
    let found = points.find(|point| point.name() == text);
    found.ok_or_else(|| match point_meant(text) {
        Some(meant) => format!("did you mean {}?", meant.name()),
        None => format!("one of {}", point_names()),
    })
}

fn arguments(text: &str) -> Result<String, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(_)) => Ok(text.to_owned()),
        _ => Err("a JSON object, such as {\"path\": \"a.json\"}".to_owned()),
    }
}

/// Asks the hook.
///
/// # Errors
/// No such hook; it is not asked at the point, or about the tool; the services'.
pub(super) async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let definition = find(&args.name, context).await?;
    check_asked(&definition, &args)?;
    let executor = hook_executor(context)?;
    let Some(hook) = definition.hook(&executor) else {
        let message = format!("hook {} is a part of another process", args.name);
        return Err(CliError::new(escape(&message))
            .hint("a hook that can be tried has a command or a url in its settings"));
    };
    let asked = example::asked(&args);
    let began = Instant::now();
    let within = definition.policy.timeout;
    let answer = tokio::select! {
        answer = tokio::time::timeout(within, hook.ask(&asked)) => answer,
        () = context.stop.cancelled() => {
            return Err(CliError::new("interrupted").code(crate::error::INTERRUPTED));
        }
    };
    let took = began.elapsed();
    let answer = match answer {
        Err(_) => Err(format!("it did not answer within {within:?}")),
        Ok(Err(HookError::Unreachable(why) | HookError::Wrong(why))) => Err(why),
        Ok(Ok(verdict)) => {
            let verdict = verdict.shortened();
            match fault_of(args.point, &verdict, asked.question.conversation()) {
                None => Ok(verdict),
                Some(fault) => Err(fault),
            }
        }
    };
    let code = match &answer {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(crate::error::FAILURE),
    };
    match context.json {
        true => out::json(&to_json(&args, &answer, took))?,
        false => out::line(&to_text(&args, &answer, took))?,
    }
    Ok(code)
}

/// The hook of these settings, or the one that the services know.
async fn find(name: &str, context: &Context) -> Result<Definition, CliError> {
    let mut of_settings = context.config().hooks.iter();
    if let Some(hook) = of_settings.find(|hook| hook.name == name) {
        return Ok(HookSettings::definition(hook));
    }
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let hook = show::get(&mut client, name.to_owned()).await;
    client.finish().await;
    Ok(stored(hook.map_err(|error| not_found(context, error))?))
}

/// As the services have it.
fn stored(hook: Hook) -> Definition {
    let command = hook.command;
    let definition = hook.definition.unwrap_or_default();
    let points = Point::ALL.iter().copied();
    let is_named = |point: &Point| {
        let mut named = definition.points.iter();
        named.any(|number| point_name(*number) == point.name())
    };
    let means = match (definition.url.is_empty(), command.is_empty()) {
        (false, _) => Means::Host(definition.url.clone()),
        (true, false) => Means::Program(cairn_hooks::ProgramConfig {
            argv: command,
            env: Vec::new(),
        }),
        (true, true) => Means::InProcess,
    };
    let timeout = definition.timeout.as_ref().map(show::millis);
    let on_error = match definition.on_error() {
        HookOnError::Unspecified => None,
        HookOnError::Block => Some(OnError::Block),
        HookOnError::Proceed => Some(OnError::Proceed),
    };
    Definition {
        points: points.filter(is_named).collect(),
        name: definition.name.clone(),
        agents: None,
        tools: definition.tools.clone(),
        means,
        policy: Policy {
            timeout: timeout.map_or(cairn_hooks::DEFAULT_TIMEOUT, Duration::from_millis),
            on_error,
        },
    }
}

/// A run would not ask it.
fn check_asked(definition: &Definition, args: &Args) -> Result<(), CliError> {
    let pin = definition.present().pin;
    let of_call = matches!(args.point, Point::PreToolCall | Point::PostToolCall);
    let tool = of_call.then_some(args.tool.as_str());
    let name = escape(&args.name);
    if !pin.points.has(args.point) {
        let points = Point::ALL.iter().filter(|point| pin.points.has(**point));
        let points: Vec<_> = points.map(|point| point.name()).collect();
        let message = format!("hook {name} is not asked at {}", args.point.name());
        let hint = format!("it is asked at {}", points.join(", "));
        return Err(CliError::usage(message).hint(hint));
    }
    if !pin.listens(args.point, tool) {
        let tool = escape(&args.tool);
        let message = format!("hook {name} is not asked about calls of {tool}");
        let hint = format!(
            "it is asked about calls of {}",
            escape(&pin.tools.join(", "))
        );
        return Err(CliError::usage(message).hint(hint));
    }
    Ok(())
}

/// The answer in a line, or why there is none.
fn to_text(args: &Args, answer: &Result<Verdict, String>, took: Duration) -> String {
    let took = span(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    match answer {
        Err(why) => {
            let name = escape(&args.name);
            format!("hook {name} failed: {} ({took})", block(why))
        }
        Ok(verdict) => {
            let text = match verdict {
                Verdict::Mutate(mutation) => changed(mutation),
                verdict => words(verdict).to_owned(),
            };
            let colon = if text.is_empty() { "" } else { ": " };
            format!("{}{colon}{} ({took})", verdict.kind().name(), block(&text))
        }
    }
}

/// What a change sets.
fn changed(mutation: &Mutation) -> String {
    match mutation {
        Mutation::Arguments(text)
        | Mutation::Output(text)
        | Mutation::Text(text)
        | Mutation::Prompt(text) => text.clone(),
        Mutation::Ops(_) | Mutation::Plan(_) => mutation_json(mutation).to_string(),
    }
}

fn to_json(args: &Args, answer: &Result<Verdict, String>, took: Duration) -> Value {
    let verdict = answer.as_ref().ok();
    let mutation = match verdict {
        Some(Verdict::Mutate(mutation)) => mutation_json(mutation),
        _ => Value::Null,
    };
    json!({
        "hook": args.name,
        "point": args.point.name(),
        "answer": verdict.map(|verdict| verdict.kind().name()),
        "text": verdict.map(words),
        "mutation": mutation,
        "problem": answer.as_ref().err(),
        "duration_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    })
}

fn mutation_json(mutation: &Mutation) -> Value {
    let mutation = HookMutation::from(mutation.clone());
    json::value("cairn.event.v1.HookMutation", Some(&mutation))
}

/// The reason or the result of an answer.
fn words(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Proceed | Verdict::Mutate(_) => "",
        Verdict::Skip(text) | Verdict::RequireApproval(text) | Verdict::Block(text) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn args(point: Point) -> Args {
        Args {
            name: "guard".to_owned(),
            point,
            tool: "shell_exec".to_owned(),
            arguments: r#"{"command":"ls"}"#.to_owned(),
            text: "An example.".to_owned(),
        }
    }

    fn guard(tools: &[&str]) -> Definition {
        Definition {
            name: "guard".to_owned(),
            points: [Point::PreToolCall, Point::OnRunEnd].into_iter().collect(),
            agents: None,
            tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
            means: Means::InProcess,
            policy: Policy::default(),
        }
    }

    #[test]
    fn a_wrong_point_and_wrong_arguments_are_refused() {
        assert_eq!(point("PreToolCall"), Ok(Point::PreToolCall));
        for (word, meant) in [
            ("PreToolcall", "PreToolCall"),
            ("PreToolUse", "PreToolCall"),
            ("stop", "OnTurnEnd"),
        ] {
            assert_eq!(point(word), Err(format!("did you mean {meant}?")));
        }
        assert!(point("Notification").unwrap_err().contains("OnRunStart, "));
        assert!(arguments("[]").is_err() && arguments("{}").is_ok());
    }

    #[test]
    fn a_hook_is_asked_what_a_run_would_ask_it() {
        check_asked(&guard(&[]), &args(Point::PreToolCall)).unwrap();
        check_asked(&guard(&["shell_*"]), &args(Point::PreToolCall)).unwrap();
        check_asked(&guard(&["write_file"]), &args(Point::OnRunEnd)).unwrap();
        let error = check_asked(&guard(&[]), &args(Point::OnTurnEnd)).unwrap_err();
        assert_eq!(error.hint, "it is asked at OnRunEnd, PreToolCall");
        let error = check_asked(&guard(&["write_file"]), &args(Point::PreToolCall)).unwrap_err();
        assert_eq!(error.hint, "it is asked about calls of write_file");
    }

    #[test]
    fn answers_are_shown_by_kind() {
        let took = Duration::from_millis(120);
        let args = args(Point::PreToolCall);
        let shown = |answer: Result<Verdict, String>| to_text(&args, &answer, took);
        assert_eq!(shown(Ok(Verdict::Proceed)), "proceed (0.1 s)");
        let block = Verdict::Block("no force pushes".to_owned());
        assert_eq!(shown(Ok(block)), "block: no force pushes (0.1 s)");
        let mutation = Verdict::Mutate(Mutation::Arguments("{}".to_owned()));
        assert_eq!(shown(Ok(mutation.clone())), "mutate: {} (0.1 s)");
        let failed = Err("it ended with exit status 1".to_owned());
        let expected = "hook guard failed: it ended with exit status 1 (0.1 s)";
        assert_eq!(shown(failed.clone()), expected);
        let json = to_json(&args, &Ok(mutation), took);
        assert_eq!(json["mutation"]["arguments_json"], "{}");
        let json = to_json(&args, &failed, took);
        assert_eq!(
            (&json["answer"], &json["duration_ms"]),
            (&Value::Null, &json!(120))
        );
    }
}
