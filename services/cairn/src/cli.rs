//! The command line.

use crate::commands::{
    agent, approve, cancel, chat, check_config, completions, config, context, decide, doctor,
    export, feedback, fork, hook, import, knowledge, log, memory, pause, pending, plan, pool,
    prompt, redo, report, resume, run, serve, sessions, show, skip, state, tools, tree, watch,
};
use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// A durable runtime for AI agents: it plans, works step by step, and survives any crash.
#[derive(Debug, Parser)]
#[command(name = "cairn", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// What holds for every command.
    #[command(flatten)]
    pub global: Global,
    /// What is to be done.
    #[command(subcommand)]
    pub command: Command,
}

/// What holds for every command.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Global {
    /// Where sessions are stored: a file, or redis://host:port for cairn serve [default: a file of the
    /// workspace's own in your state folder, which cairn doctor names; environment: CAIRN_STORE]
    #[arg(
        long,
        global = true,
        value_name = "PLACE",
        help_heading = "Global options"
    )]
    pub store: Option<PathBuf>,
    /// The workspace: the folder that tools read and commands run in. Each has a store of its own
    /// [default: the current folder]
    #[arg(
        long = "in",
        global = true,
        value_name = "DIR",
        help_heading = "Global options"
    )]
    pub workspace: Option<PathBuf>,
    /// Talk to the cairn serve at this address instead of working on a store, such as
    /// http://127.0.0.1:7878, or to one that answers of several with commas between them. Its token
    /// comes from CAIRN_TOKEN or serve.token_file. Without them it is found by the port: in
    /// XDG_RUNTIME_DIR for a server of this machine, or beside the store of this command
    /// [environment: CAIRN_SERVER]
    #[arg(
        long,
        global = true,
        value_name = "URL",
        conflicts_with = "store",
        help_heading = "Global options"
    )]
    pub server: Option<String>,
    /// Settings [default: cairn.toml in the current folder, if it is there and confirmed with cairn
    /// config trust; environment: CAIRN_CONFIG]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub config: Option<PathBuf>,
    /// What is logged on standard error: error, warn, info, debug, trace, off
    #[arg(
        long,
        global = true,
        value_name = "LEVEL",
        help_heading = "Global options"
    )]
    pub log: Option<String>,
    /// One JSON object a line on standard output, and nothing else there
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// When to use colours
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Global options"
    )]
    pub color: ColorChoice,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Plan a goal, carry it out and watch it to its end
    Run(run::Args),
    /// Converse with a model that uses the tools
    Chat(chat::Args),
    /// Go on with what was interrupted or paused
    Resume(resume::Args),
    /// Follow a session from any point of its journal
    Watch(watch::Args),
    /// Show the execution tree of a run
    Tree(tree::Args),
    /// Write the report of a run
    Report(report::Args),
    /// List the sessions
    Sessions(sessions::Args),
    /// Show one session: runs, plan, state
    Show(show::Args),
    /// Show every model text and every tool call with input and output
    Log(log::Args),
    /// Show the agent state as JSON, now or as it was after an event
    State(state::Args),
    /// Read and change what a session remembers beside its plan
    Memory(memory::Args),
    /// Store, find, list, show and delete pages of knowledge, which all sessions share
    Knowledge(knowledge::Args),
    /// Read and change the contexts of a session, which conversations continue
    Context(context::Args),
    /// Check agent files, store, list and show agents, and confirm the files of a folder
    Agent(agent::Args),
    /// List what waits for a person's decision
    Pending(pending::Args),
    /// Answer what a run waits for
    Decide(decide::Args),
    /// Allow the calls, or the plan, that a session waits with
    Approve(approve::Args),
    /// List the tools, call one, allow one, and see who decides about calls
    Tools(tools::Args),
    /// Show the resources that carry out steps, register some, and grant and revoke tools
    Pool(pool::Args),
    /// List, store and try the hooks that runs ask before and after what they do
    Hook(hook::Args),
    /// List and show the texts that models are given, and render one with values of its variables
    Prompt(prompt::Args),
    /// Show, edit and compare the plan of a run, or put a proposal into force
    Plan(plan::Args),
    /// Say what is to be different about a run, and see what that would change
    Feedback(feedback::Args),
    /// Do a step again that has ended, and all that depends on it
    Redo(redo::Args),
    /// Go on without a step
    Skip(skip::Args),
    /// Begin nothing more in a run until it is resumed
    Pause(pause::Args),
    /// End a run
    Cancel(cancel::Args),
    /// Make a new session from any point of another one
    Fork(fork::Args),
    /// Write the whole journal of a session
    Export(export::Args),
    /// Restore a session from the archive of old sessions
    Import(import::Args),
    /// Serve the gRPC API: all services in this process, or some of them
    Serve(serve::Args),
    /// Show every setting with its origin, or all that is wrong with them
    CheckConfig(check_config::Args),
    /// Show, check or confirm the settings
    Config(config::Args),
    /// Look whether the store, and what it runs on, is as it must be
    Doctor(doctor::Args),
    /// Write the completions of a shell
    Completions(completions::Args),
}

const EXAMPLES: &str = "\
Examples:
  cairn run \"Which files under docs mention Redis?\"   plan it, do it, watch it
  cairn run --pace 800ms \"Survey this folder\"         slow enough to follow, kill and resume
  cairn chat                                          converse, with tools
  cairn resume                                        go on after a crash or Ctrl-C
  cairn run --plan plan.json                          carry out a plan of your own
  cairn tree                                          what happened in the latest session
  cairn feedback \"Leave the drafts out\"               another plan; what holds is kept
  cairn serve                                         gRPC for other programs

Without a configured model, an offline one follows fixed rules in place of a language model. For a
real one, set OPENAI_API_KEY or ANTHROPIC_API_KEY (and OPENAI_BASE_URL, OPENAI_MODEL …), or describe
models in cairn.toml.

Exit codes: 0 done, 1 failed, 2 wrong use or configuration, 3 a run waits for a person,
130 interrupted.";
