//! The service above a supervising process.

use rustix::process::Pid;

/// Waits for the end of the service. It is asked for by its number, too, where the system has no descriptors of
/// processes.
pub(super) struct Parent {
    #[cfg(target_os = "linux")]
    descriptor: Option<tokio::io::unix::AsyncFd<rustix::fd::OwnedFd>>,
}

impl Parent {
    /// Needs a runtime.
    #[cfg(target_os = "linux")]
    pub(super) fn of(parent: Option<Pid>) -> Self {
        use rustix::process::{PidfdFlags, getppid, pidfd_open};
        let descriptor = parent.and_then(|parent| pidfd_open(parent, PidfdFlags::empty()).ok());
        // While it is the parent, the number is its own. Another one may have it later.
        let descriptor = descriptor.filter(|_| getppid() == parent);
        Self {
            descriptor: descriptor.and_then(|it| tokio::io::unix::AsyncFd::new(it).ok()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(_: Option<Pid>) -> Self {
        Self {}
    }

    /// Once the service has ended. Returns once.
    #[cfg(target_os = "linux")]
    pub(super) async fn ended(&mut self) {
        if let Some(descriptor) = &self.descriptor
            && descriptor.readable().await.is_ok()
        {
            self.descriptor = None;
            return;
        }
        std::future::pending().await
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) async fn ended(&mut self) {
        std::future::pending().await
    }
}
