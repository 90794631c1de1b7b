//! The terminal: taken for the time of a watch, and given back however that ends.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEvent};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, Receiver};

use super::client::Client;
use super::draw::{Palette, draw};
use super::model::{Model, Wish};
use super::watch;

/// How often the screen is drawn though nothing happens: times go on.
const STILL: Duration = Duration::from_secs(1);
/// How much may wait to be taken up.
const WAITING: usize = 64;

/// The terminal, in the program's hands. Dropping it gives it back; so does a panic, before it is told.
struct Screen(DefaultTerminal);

impl Screen {
    fn take() -> io::Result<Self> {
        ratatui::try_init().map(Self).inspect_err(|_| ratatui::restore())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// What comes from the terminal.
enum Typed {
    Key(KeyEvent),
    /// Its size has changed.
    Resized,
    Failed(io::Error),
}

/// Watches until somebody has seen enough.
pub(super) async fn watch(client: Client, mut model: Model, interval: Duration, palette: Palette) -> io::Result<()> {
    let mut ends = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()].map(signal);
    let [Ok(terminated), Ok(hung_up), Ok(interrupted)] = &mut ends else {
        return Err(io::Error::other("signals cannot be listened to"));
    };
    let mut screen = Screen::take()?;
    let (news, mut heard) = mpsc::channel(WAITING);
    let (lift, to_lift) = mpsc::channel(WAITING);
    tokio::spawn(watch::follow(client.another(), news.clone()));
    tokio::spawn(watch::look(client, interval, to_lift, news));
    let mut typed = typed()?;
    loop {
        screen.0.draw(|frame| draw(frame, &model, palette, Instant::now()))?;
        tokio::select! {
            Some(event) = typed.recv() => match event {
                Typed::Key(key) => match model.press(key) {
                    Some(Wish::Quit) => return Ok(()),
                    // More than fit wait already: then this one is asked for again.
                    Some(Wish::Lift(ban)) => drop(lift.try_send(ban)),
                    None => {}
                },
                Typed::Resized => {}
                Typed::Failed(error) => return Err(error),
            },
            Some(news) = heard.recv() => model.hear(news, Instant::now()),
            _ = terminated.recv() => return Ok(()),
            _ = hung_up.recv() => return Ok(()),
            _ = interrupted.recv() => return Ok(()),
            () = tokio::time::sleep(STILL) => {}
        }
    }
}

/// Reads the terminal on a thread of its own, which ends with the program.
fn typed() -> io::Result<Receiver<Typed>> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let read = move || loop {
        let event = match event::read() {
            Ok(Event::Key(key)) => Typed::Key(key),
            Ok(Event::Resize(..)) => Typed::Resized,
            Ok(_) => continue,
            Err(error) => Typed::Failed(error),
        };
        let is_end = matches!(event, Typed::Failed(_));
        if sender.blocking_send(event).is_err() || is_end {
            return;
        }
    };
    thread::Builder::new().name("terminal".to_owned()).spawn(read)?;
    Ok(receiver)
}
