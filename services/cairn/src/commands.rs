//! The commands, one file each, and the way to them.

pub mod agent;
pub mod approve;
mod ask;
pub mod cancel;
pub mod chat;
pub mod check_config;
pub mod completions;
pub mod config;
mod confirm;
pub mod context;
pub mod decide;
mod deletion;
pub mod doctor;
pub mod export;
pub mod feedback;
mod follow;
pub mod fork;
mod hint;
pub mod hook;
pub mod import;
pub mod knowledge;
pub mod log;
pub mod memory;
mod mode;
mod pairs;
pub mod pause;
pub mod pending;
pub mod plan;
mod plan_file;
pub mod pool;
pub mod prompt;
pub mod redo;
pub mod report;
pub mod resume;
mod revise;
pub mod run;
pub mod serve;
pub mod sessions;
pub mod show;
pub mod skip;
pub mod state;
mod text_file;
pub mod tools;
pub mod tree;
pub mod watch;

use crate::cli::{Cli, ColorChoice, Command};
use crate::context::Context;
use crate::error::CliError;
use crate::node::Service;
use crate::settings;
use cairn_boot::{Environment, LogConfig, Origin};
use std::io::{IsTerminal as _, Write as _};
use std::pin::Pin;
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;

/// A flag of a command that sets a setting: flag, setting, value.
type Flag = (&'static str, &'static str, String);

/// What the command has at hand: settings of all sources, checked.
///
/// # Errors
/// All faults of the settings.
pub fn context(
    cli: &Cli,
    environment: Environment,
    stop: CancellationToken,
) -> Result<Context, CliError> {
    let mut flags = flags(&cli.command);
    settings::check_given(&cli.global, &flags)?;
    let model = model_elsewhere(&cli.command, &mut flags);
    let source = settings::Source::find(&cli.global, &environment)?;
    let source = config::settled(source, cli, &environment)?;
    let file = source.path().to_owned();
    let unconfirmed = source.unconfirmed();
    let is_confirmed = unconfirmed.is_none();
    let lacks_hooks = unconfirmed.is_some_and(|it| config::withholds_hooks(it, &environment));
    let mut settings = settings::load_from(source, &cli.global, &environment, &flags)?;
    settings::hooks::check_means(&settings)?;
    if model.is_some() {
        settings.config.model.default = model;
    }
    let is_terminal = std::io::stdout().is_terminal();
    let is_dumb = environment.get("TERM") == Some("dumb");
    let no_color = environment
        .get("NO_COLOR")
        .is_some_and(|value| !value.is_empty());
    let color = match cli.global.color {
        ColorChoice::Auto => is_terminal && !no_color && !is_dumb,
        ColorChoice::Always => true,
        ColorChoice::Never => false,
    };
    Ok(Context {
        settings,
        file,
        given_file: cli.global.config.clone(),
        is_confirmed,
        lacks_hooks,
        environment,
        json: cli.global.json,
        color: color && !cli.global.json,
        live: is_terminal && !is_dumb && !cli.global.json,
        stop,
    })
}

/// Takes the model out of the flags, which is not checked against these settings: another process may do the
/// work, with models of its own. One that does the work here checks it when it takes the store.
fn model_elsewhere(command: &Command, flags: &mut Vec<Flag>) -> Option<String> {
    if matches!(command, Command::Serve(_)) {
        return None;
    }
    let at = flags
        .iter()
        .position(|(_, setting, _)| *setting == "model.default")?;
    Some(flags.remove(at).2)
}

/// The flags of the command that were given and set a setting.
fn flags(command: &Command) -> Vec<Flag> {
    let given = |flag, setting, value: Option<String>| Some((flag, setting, value?));
    let flags = match command {
        Command::Run(args) => vec![
            given("--pace", "model.pace", args.pace.clone()),
            given("--model", "model.default", args.model.clone()),
        ],
        Command::Resume(args) => vec![given("--pace", "model.pace", args.pace.clone())],
        Command::Chat(args) => vec![
            given("--pace", "model.pace", args.pace.clone()),
            given("--model", "model.default", args.model.clone()),
        ],
        Command::Context(args) => vec![given("--model", "model.default", args.model())],
        Command::Serve(args) => args.flags(),
        _ => Vec::new(),
    };
    flags.into_iter().flatten().collect()
}

/// How much is logged: beside a display only what a person should know, unless they ask for more.
pub fn log_config(command: &Command, context: &Context) -> LogConfig {
    let mut log = context.config().log.clone();
    let is_default = context.settings.origin("log.level") == &Origin::Default;
    if is_default && !matches!(command, Command::Serve(_)) {
        log.level = "warn".to_owned();
    }
    log
}

/// The names of the services that the command has in this process: those that were named, or all
/// five.
pub fn services(command: &Command) -> Vec<&'static str> {
    let here = match command {
        Command::Serve(args) => args.here(),
        _ => Service::ALL.into(),
    };
    here.into_iter().map(Service::name).collect()
}

/// What a command does, until its exit code. Boxed here, so that it is compiled with this library
/// and not once more with each program that runs it.
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<ExitCode, CliError>> + 'a>>;

/// Carries out the command. Fails as the command does.
pub fn dispatch(command: Command, context: &Context) -> Running<'_> {
    match command {
        Command::Run(args) => Box::pin(run::run(args, context)),
        Command::Chat(args) => Box::pin(chat::run(args, context)),
        Command::Resume(args) => Box::pin(resume::run(args, context)),
        Command::Watch(args) => Box::pin(watch::run(args, context)),
        Command::Tree(args) => Box::pin(tree::run(args, context)),
        Command::Report(args) => Box::pin(report::run(args, context)),
        Command::Sessions(args) => Box::pin(sessions::run(args, context)),
        Command::Show(args) => Box::pin(show::run(args, context)),
        Command::Pending(args) => Box::pin(pending::run(args, context)),
        Command::Decide(args) => Box::pin(decide::run(args, context)),
        Command::Approve(args) => Box::pin(approve::run(args, context)),
        Command::Log(args) => Box::pin(log::run(args, context)),
        Command::State(args) => Box::pin(state::run(args, context)),
        Command::Memory(args) => Box::pin(memory::run(args, context)),
        Command::Knowledge(args) => Box::pin(knowledge::run(args, context)),
        Command::Context(args) => Box::pin(context::run(args, context)),
        Command::Agent(args) => Box::pin(agent::run(args, context)),
        Command::Tools(args) => Box::pin(tools::run(args, context)),
        Command::Pool(args) => Box::pin(pool::run(args, context)),
        Command::Hook(args) => Box::pin(hook::run(args, context)),
        Command::Prompt(args) => Box::pin(prompt::run(args, context)),
        Command::Plan(args) => Box::pin(plan::run(args, context)),
        Command::Feedback(args) => Box::pin(feedback::run(args, context)),
        Command::Redo(args) => Box::pin(redo::run(args, context)),
        Command::Skip(args) => Box::pin(skip::run(args, context)),
        Command::Pause(args) => Box::pin(pause::run(args, context)),
        Command::Cancel(args) => Box::pin(cancel::run(args, context)),
        Command::Fork(args) => Box::pin(fork::run(args, context)),
        Command::Export(args) => Box::pin(export::run(args, context)),
        Command::Import(args) => Box::pin(import::run(args, context)),
        Command::Serve(args) => Box::pin(serve::run(args, context)),
        Command::CheckConfig(args) => Box::pin(check_config::run(args, context)),
        Command::Config(args) => Box::pin(config::run(args, context)),
        Command::Doctor(args) => Box::pin(doctor::run(args, context)),
        Command::Completions(args) => Box::pin(completions::run(args, context)),
    }
}

/// Says what went wrong, on standard error.
pub fn complain(error: &CliError) -> ExitCode {
    if !error.message.is_empty() {
        // Where this cannot be written, the exit code still says it.
        let _ = writeln!(std::io::stderr(), "{error}");
    }
    ExitCode::from(error.code)
}
