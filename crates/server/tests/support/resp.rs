//! Client of the Redis protocol (RESP2).

use std::io;
use std::pin::Pin;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::endpoint::{BoxedIo, TestEndpoint};
use super::with_timeout;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RespReply {
    Status(String),
    Error(String),
    Integer(i64),
    Bulk(String),
    Nil,
    Array(Vec<RespReply>),
}

impl RespReply {
    /// Integers of an array; other elements become -99.
    pub fn integers(&self) -> Vec<i64> {
        match self {
            Self::Array(list) => {
                list.iter().map(|it| if let Self::Integer(number) = it { *number } else { -99 }).collect()
            }
            other => panic!("not an array: {other:?}"),
        }
    }
}

pub struct TestRespClient(pub BufReader<BoxedIo>);

impl TestRespClient {
    pub async fn connect(endpoint: &TestEndpoint) -> io::Result<Self> {
        Ok(Self(BufReader::new(endpoint.connect(b"").await?)))
    }

    /// Sends a command and reads its reply.
    pub async fn call(&mut self, args: &[&str]) -> io::Result<RespReply> {
        self.send(args).await?;
        self.reply().await
    }

    pub async fn send(&mut self, args: &[&str]) -> io::Result<()> {
        let io = self.0.get_mut();
        io.write_all(&encode_command(args)).await?;
        io.flush().await
    }

    pub async fn reply(&mut self) -> io::Result<RespReply> {
        with_timeout("a reply", read_reply(&mut self.0)).await
    }

    /// `SLUICE.CHECK` for an account: allowed, remaining, degraded.
    pub async fn check(&mut self, rule: &str, account: &str) -> io::Result<(bool, i64, bool)> {
        let numbers = self.call(&["SLUICE.CHECK", rule, "account", account]).await?.integers();
        Ok((numbers[0] == 1, numbers[2], numbers[7] == 1))
    }
}

pub fn encode_command(args: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for word in args {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
    }
    bytes
}

fn read_reply(io: &mut BufReader<BoxedIo>) -> Pin<Box<dyn Future<Output = io::Result<RespReply>> + Send + '_>> {
    Box::pin(async move {
        let mut line = String::new();
        if io.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.trim_end().split_at(1);
        Ok(match kind {
            "+" => RespReply::Status(rest.to_owned()),
            "-" => RespReply::Error(rest.to_owned()),
            ":" => RespReply::Integer(rest.parse().unwrap()),
            "$" => match rest.parse::<usize>() {
                Err(_) => RespReply::Nil,
                Ok(length) => {
                    let mut text = vec![0; length + 2];
                    io.read_exact(&mut text).await?;
                    text.truncate(length);
                    RespReply::Bulk(String::from_utf8(text).unwrap())
                }
            },
            "*" => {
                let mut list = Vec::new();
                for _ in 0..rest.parse::<i64>().unwrap() {
                    list.push(read_reply(io).await?);
                }
                RespReply::Array(list)
            }
            other => panic!("not a RESP reply: {other}{rest}"),
        })
    })
}
