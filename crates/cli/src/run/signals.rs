//! What the process is told by signals.

use std::io;

use sluicegate_listen::{Notice, Process};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info};

use super::services::Services;

/// Why to stop.
pub(super) enum Stopped {
    /// Somebody said so.
    Told(&'static str),
    /// This process serves instead.
    Followed(u32),
}

/// The signals that mean something. Who does not listen for them is ended by them, so they are heard from before
/// anything says that it serves.
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

    /// Waits until the process is to stop. SIGUSR1 opens the access log anew, SIGHUP reads rules and certificates
    /// again, SIGUSR2 starts the program anew at the same sockets. Told to stop, it goes on for as long as clients need
    /// to learn of it; told once more, it does not.
    pub(super) fn attend(self, services: &Services, process: &Process) -> Stopped {
        let Self { runtime, mut terminate, mut interrupt, mut reopen, mut reload, mut restart } = self;
        runtime.block_on(async {
            tokio::spawn(services.keeper().clone().follow());
            tokio::spawn(sluicegate_admin::tell_refusals(services.sluice().clone()));
            let how = loop {
                tokio::select! {
                    _ = terminate.recv() => break "told to stop",
                    _ = interrupt.recv() => break "interrupted",
                    _ = reopen.recv() => services.reopen_log(),
                    _ = reload.recv() => {
                        process.tell(Notice::Reloading);
                        let bad = services.reload_certificates().await;
                        bad.iter().for_each(|error| error!("a certificate stays as it was: {error}"));
                        // What goes wrong has been said.
                        let _ = services.keeper().reload().await;
                        process.tell(Notice::Ready);
                    }
                    _ = restart.recv() => match process.follow(services.sluice()).await {
                        Ok(process) => return Stopped::Followed(process),
                        Err(error) => error!("{error}"),
                    },
                }
            };
            if let Some(server) = services.draining() {
                info!(
                    "{how}: whoever asks for the server's health is told so; until server.drain is over it serves on"
                );
                tokio::select! {
                    () = server.drain() => {}
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            Stopped::Told(how)
        })
    }
}
