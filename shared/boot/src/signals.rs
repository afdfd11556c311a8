//! The first signal asks to stop, the second insists.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code of a process that was stopped at once.
pub const EXIT_AT_ONCE: i32 = 130;

/// SIGINT and SIGTERM, caught from here on.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Catches the signals, so that they no longer end the process by themselves. Must be called
    /// inside a tokio runtime, before anything worth ending gracefully has begun.
    ///
    /// # Errors
    /// The system's.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// On the first signal cancels `shutdown`; on the second calls `at_once` with the exit code
    /// 130 and ends. To be spawned; `at_once` is expected to leave the process.
    pub async fn obey(self, shutdown: CancellationToken, at_once: impl FnOnce(i32)) {
        obey(self, shutdown, at_once).await;
    }
}

/// Where signals come from.
trait Source {
    /// Waits for the next one, and names it.
    fn next(&mut self) -> impl Future<Output = &'static str> + Send;
}

impl Source for Signals {
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

async fn obey(mut signals: impl Source, shutdown: CancellationToken, at_once: impl FnOnce(i32)) {
    let signal = signals.next().await;
    tracing::info!(signal, "stopping; a second signal stops at once");
    shutdown.cancel();
    let signal = signals.next().await;
    tracing::warn!(signal, "stopping at once");
    at_once(EXIT_AT_ONCE);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal as Number, getpid, kill_process};
    use std::cell::Cell;
    use std::time::Duration;
    use tokio::sync::mpsc;

    impl Source for mpsc::Receiver<&'static str> {
        async fn next(&mut self) -> &'static str {
            self.recv().await.unwrap()
        }
    }

    #[tokio::test]
    async fn the_second_signal_retries() {
        let (send, signals) = mpsc::channel(1);
        let shutdown = CancellationToken::new();
        let code = Cell::new(None);
        let person = async {
            assert!(!shutdown.is_cancelled());
            send.send("SIGTERM").await.unwrap();
            shutdown.cancelled().await;
            assert_eq!(code.get(), None);
            send.send("SIGINT").await.unwrap();
        };
        tokio::join!(
            obey(signals, shutdown.clone(), |c| code.set(Some(c))),
            person
        );
        assert_eq!(code.get(), Some(130));
    }

    #[tokio::test]
    async fn real_signals_are_caught() {
        let signals = Signals::catch().unwrap();
        let shutdown = CancellationToken::new();
        let code = Cell::new(None);
        let person = async {
            kill_process(getpid(), Number::TERM).unwrap();
            shutdown.cancelled().await;
            kill_process(getpid(), Number::INT).unwrap();
        };
        let obeying = signals.obey(shutdown.clone(), |c| code.set(Some(c)));
        let both = async { tokio::join!(obeying, person) };
        tokio::time::timeout(Duration::from_secs(20), both)
            .await
            .unwrap();
        assert_eq!(code.get(), Some(130));
    }
}
