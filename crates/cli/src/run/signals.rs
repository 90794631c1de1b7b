//! Signal handling of a running process.

use std::io;

use sluicegate_net::{Process, ServiceNotice};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info};

use super::services::Services;

/// Reason to stop.
pub(super) enum StopReason {
    /// A stop signal.
    Signal(&'static str),
    /// The process with this id has taken over.
    Successor(u32),
}

/// Handled signals. Without a handler they would kill the process, so handlers are installed before the process
/// reports readiness.
pub(super) struct Signals {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
    reopen: Signal,
    reload: Signal,
    restart: Signal,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let within = runtime.enter();
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let reopen = signal(SignalKind::user_defined1())?;
        let (reload, restart) = (signal(SignalKind::hangup())?, signal(SignalKind::user_defined2())?);
        drop(within);
        Ok(Self { runtime, terminate, interrupt, reopen, reload, restart })
    }

    /// Waits until the process must stop. SIGUSR1 reopens the access log, SIGHUP reloads rules and certificates,
    /// SIGUSR2 restarts the program on the same sockets. After a stop signal the process keeps serving for the
    /// shutdown delay; a second signal stops it at once.
    pub(super) fn wait_for_stop(self, services: &Services, process: &Process) -> StopReason {
        let Self { runtime, mut terminate, mut interrupt, mut reopen, mut reload, mut restart } = self;
        runtime.block_on(async {
            tokio::spawn(services.rule_manager().clone().watch());
            tokio::spawn(sluicegate_admin::log_refusals(services.sluice().clone()));
            let reason = loop {
                tokio::select! {
                    _ = terminate.recv() => break "SIGTERM received",
                    _ = interrupt.recv() => break "SIGINT received",
                    _ = reopen.recv() => services.reopen_log(),
                    _ = reload.recv() => {
                        process.notify(ServiceNotice::Reloading);
                        let errors = services.reload_certificates().await;
                        errors.iter().for_each(|error| error!("certificate not reloaded: {error}"));
                        // Errors have already been logged.
                        let _ = services.rule_manager().reload().await;
                        process.notify(ServiceNotice::Ready);
                    }
                    _ = restart.recv() => {
                        let sluice = services.sluice();
                        match process.restart(&sluice.save().to_bytes(), sluice.clock()).await {
                            Ok(process) => return StopReason::Successor(process),
                            Err(error) => error!("{error}"),
                        }
                    }
                }
            };
            if let Some(server) = services.draining() {
                info!(
                    "{reason}: health checks report the shutdown; requests are served until server.shutdown_delay has elapsed"
                );
                tokio::select! {
                    () = server.drain() => {}
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            StopReason::Signal(reason)
        })
    }
}
