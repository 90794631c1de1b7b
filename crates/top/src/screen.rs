//! Terminal handling: enters the alternate screen and always restores the terminal.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEvent};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, Receiver};

use super::client::AdminClient;
use super::draw::{Palette, draw};
use super::model::{Action, Model};
use super::poll;

/// Redraw interval without events, for running times.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);
/// Channel capacity for pending events.
const CHANNEL_CAPACITY: usize = 64;

/// The terminal in raw mode. Restored on drop, and on a panic before its message is printed.
struct Screen(DefaultTerminal);

impl Screen {
    fn enter() -> io::Result<Self> {
        ratatui::try_init().map(Self).inspect_err(|_| ratatui::restore())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Input from the terminal.
enum TerminalInput {
    Key(KeyEvent),
    /// The terminal was resized.
    Resized,
    Failed(io::Error),
}

/// Runs the screen until the user quits.
pub(super) async fn run(client: AdminClient, mut model: Model, interval: Duration, palette: Palette) -> io::Result<()> {
    let mut signals = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()].map(signal);
    let [Ok(terminated), Ok(hung_up), Ok(interrupted)] = &mut signals else {
        return Err(io::Error::other("cannot install signal handlers"));
    };
    let mut screen = Screen::enter()?;
    let (sender, mut updates) = mpsc::channel(CHANNEL_CAPACITY);
    let (remove_ban, bans_to_remove) = mpsc::channel(CHANNEL_CAPACITY);
    tokio::spawn(poll::follow_stream(client.clone_unconnected(), sender.clone()));
    tokio::spawn(poll::poll_loop(client, interval, bans_to_remove, sender));
    let mut typed = spawn_input_thread()?;
    loop {
        screen.0.draw(|frame| draw(frame, &model, palette, Instant::now()))?;
        tokio::select! {
            Some(event) = typed.recv() => match event {
                TerminalInput::Key(key) => match model.press(key) {
                    Some(Action::Quit) => return Ok(()),
                    // If the channel is full, the user can repeat the command.
                    Some(Action::RemoveBan(ban)) => drop(remove_ban.try_send(ban)),
                    None => {}
                },
                TerminalInput::Resized => {}
                TerminalInput::Failed(error) => return Err(error),
            },
            Some(update) = updates.recv() => model.apply(update, Instant::now()),
            _ = terminated.recv() => return Ok(()),
            _ = hung_up.recv() => return Ok(()),
            _ = interrupted.recv() => return Ok(()),
            () = tokio::time::sleep(REDRAW_INTERVAL) => {}
        }
    }
}

/// Reads the terminal on a separate thread, which ends with the program.
fn spawn_input_thread() -> io::Result<Receiver<TerminalInput>> {
    let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
    let read = move || loop {
        let event = match event::read() {
            Ok(Event::Key(key)) => TerminalInput::Key(key),
            Ok(Event::Resize(..)) => TerminalInput::Resized,
            Ok(_) => continue,
            Err(error) => TerminalInput::Failed(error),
        };
        let is_end = matches!(event, TerminalInput::Failed(_));
        if sender.blocking_send(event).is_err() || is_end {
            return;
        }
    };
    thread::Builder::new().name("terminal".to_owned()).spawn(read)?;
    Ok(receiver)
}
