//! The `cairn` binary: the life of the process, and nothing else.

use cairn::cli::Cli;
use cairn::ui::screen;
use cairn::{commands, error};
use cairn_boot::telemetry::{self, Standard};
use cairn_boot::{Environment, Signals};
use clap::Parser as _;
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;

/// Most of what a step costs is small messages between services, made and dropped.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(ended) = cairn_supervise::supervise(std::env::args_os()) {
        return ended;
    }
    use_small_pages();
    cairn_http::install_crypto_provider();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no failures; where they cannot be printed nothing can.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { error::USAGE } else { 0 });
        }
    };
    let stop = CancellationToken::new();
    let environment = Environment::from_process();
    let standard = Standard::read(&environment);
    let ended = commands::context(&cli, environment, stop.clone()).and_then(|context| {
        let log = commands::log_config(&cli.command, &context);
        let services = commands::services(&cli.command);
        let (config, beside) = (&context.config().telemetry, || screen::Beside);
        let proxies = &context.config().proxies;
        let telemetry = telemetry::init(config, &standard, &log, &services, proxies, beside);
        let telemetry = telemetry.map_err(|error| error::CliError::chain(&error))?;
        for fault in proxies.faults() {
            tracing::warn!(fault, "proxy ignored");
        }
        let runtime = cairn::runtime::runtime()?;
        let code = runtime.block_on(async {
            let at_once = |code| std::process::exit(code);
            // In a task of its own: a second Ctrl-C must be heard whatever the command is doing.
            let signals = tokio::spawn(Signals::catch()?.obey(stop, at_once));
            tokio::select! {
                code = commands::dispatch(cli.command, &context) => code,
                _ = signals => Ok(ExitCode::FAILURE),
            }
        });
        // What a stopped command left behind, such as a blocking read, is not waited for.
        runtime.shutdown_background();
        telemetry.flush_and_stop();
        code
    });
    ended.unwrap_or_else(|error| commands::complain(&error))
}

/// Keeps memory to what is in use. Each thread has memory of its own, and with huge pages it takes
/// several MiB for a few small values: 64 calls of file tools took half a GiB.
#[cfg(target_os = "linux")]
fn use_small_pages() {
    // An old system without the setting works all the same.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

#[cfg(not(target_os = "linux"))]
fn use_small_pages() {}
