//! A client of the Redis protocol, version 2.

use std::io;
use std::pin::Pin;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::place::{Io, Place};
use super::soon;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Status(String),
    Error(String),
    Number(i64),
    Text(String),
    Nothing,
    List(Vec<Reply>),
}

impl Reply {
    /// The numbers of a list; texts count as none.
    pub fn numbers(&self) -> Vec<i64> {
        match self {
            Self::List(list) => {
                list.iter().map(|it| if let Self::Number(number) = it { *number } else { -99 }).collect()
            }
            other => panic!("no list: {other:?}"),
        }
    }
}

pub struct Resp(pub BufReader<Io>);

impl Resp {
    pub async fn to(place: &Place) -> io::Result<Self> {
        Ok(Self(BufReader::new(place.connect(b"").await?)))
    }

    /// Sends a command and takes its reply.
    pub async fn ask(&mut self, words: &[&str]) -> io::Result<Reply> {
        self.send(words).await?;
        self.reply().await
    }

    pub async fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let io = self.0.get_mut();
        io.write_all(&command(words)).await?;
        io.flush().await
    }

    pub async fn reply(&mut self) -> io::Result<Reply> {
        soon("a reply", read(&mut self.0)).await
    }

    /// `SLUICE.CHECK` for an account: whether it may go on, what remains, whether the store was lost.
    pub async fn check(&mut self, rule: &str, account: &str) -> io::Result<(bool, i64, bool)> {
        let numbers = self.ask(&["SLUICE.CHECK", rule, "account", account]).await?.numbers();
        Ok((numbers[0] == 1, numbers[2], numbers[7] == 1))
    }
}

pub fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
    }
    bytes
}

fn read(io: &mut BufReader<Io>) -> Pin<Box<dyn Future<Output = io::Result<Reply>> + Send + '_>> {
    Box::pin(async move {
        let mut line = String::new();
        if io.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.trim_end().split_at(1);
        Ok(match kind {
            "+" => Reply::Status(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Number(rest.parse().unwrap()),
            "$" => match rest.parse::<usize>() {
                Err(_) => Reply::Nothing,
                Ok(length) => {
                    let mut text = vec![0; length + 2];
                    io.read_exact(&mut text).await?;
                    text.truncate(length);
                    Reply::Text(String::from_utf8(text).unwrap())
                }
            },
            "*" => {
                let mut list = Vec::new();
                for _ in 0..rest.parse::<i64>().unwrap() {
                    list.push(read(io).await?);
                }
                Reply::List(list)
            }
            other => panic!("no reply: {other}{rest}"),
        })
    })
}
