//! MCP server of a turn: our tools, for the agent that works on it.
//!
//! It speaks over the socket that `hivewright mcp` connects to. A call is not run here: it waits until the turn has
//! run it as it runs any other.

use std::{collections::HashMap, io, sync::Arc};

use hivewright_actors::{
    engine::ToolOutput,
    tool::specs::{ToolSpec, ToolSpecs},
};
use serde::Deserialize;
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::{mpsc, oneshot},
};

use super::lines::{Line, Lines};
use crate::{engines::pictures, files::FileStore};

/// The version of the protocol that is spoken with a client which names none.
const PROTOCOL: &str = "2025-06-18";
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;

/// The agent calls one of our tools.
#[derive(Debug)]
pub struct BridgeCall {
    /// The model's name for it, if the agent tells.
    pub id: Option<String>,
    pub name: String,
    pub args: Value,
    /// Takes its result.
    pub answer: oneshot::Sender<ToolOutput>,
}

/// What all connections of a turn share.
#[derive(Clone)]
pub struct Bridge {
    /// Stands for the turn: whoever does not know it is turned away.
    pub token: Arc<str>,
    pub tools: Arc<ToolSpecs>,
    pub calls: mpsc::UnboundedSender<BridgeCall>,
    /// Where pictures of results are; none if the model sees none.
    pub files: Option<FileStore>,
}

impl Bridge {
    /// Serves whoever connects, until it is dropped.
    pub async fn serve(self, listener: UnixListener) {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let bridge = self.clone();
            connections.spawn(async move {
                if let Err(error) = bridge.connection(stream).await {
                    tracing::debug!(%error, "an agent's connection to its tools broke");
                }
            });
        }
    }

    async fn connection(self, stream: UnixStream) -> io::Result<()> {
        let (reads, mut writes) = stream.into_split();
        let mut lines = Lines::new(BufReader::new(reads));
        let Some(Line::Json(greeting)) = lines.next().await? else { return Ok(()) };
        let token = greeting["token"].as_str().unwrap_or_default();
        if !bool::from(token.as_bytes().ct_eq(self.token.as_bytes())) {
            tracing::warn!("somebody who does not know its token was refused the tools of a turn");
            return Ok(());
        }
        let (answers, mut outgoing) = mpsc::unbounded_channel::<Value>();
        let writing = async move {
            while let Some(answer) = outgoing.recv().await {
                writes.write_all(format!("{answer}\n").as_bytes()).await?;
            }
            io::Result::Ok(())
        };
        let reading = async move {
            while let Some(line) = lines.next().await? {
                if let Line::Json(request) = line {
                    self.request(request, &answers);
                }
            }
            io::Result::Ok(())
        };
        tokio::try_join!(writing, reading).map(drop)
    }

    fn request(&self, request: Value, answers: &mpsc::UnboundedSender<Value>) {
        let Some(id) = request.get("id").filter(|id| !id.is_null()).cloned() else {
            // A notice: nobody waits for an answer.
            return;
        };
        let params = &request["params"];
        let result = match request["method"].as_str().unwrap_or_default() {
            "initialize" => Ok(json!({
                "protocolVersion": params["protocolVersion"].as_str().unwrap_or(PROTOCOL),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hivewright", "version": env!("CARGO_PKG_VERSION")},
            })),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(json!({"tools": self.tools.iter().map(shown).collect::<Vec<_>>()})),
            "tools/call" => match Params::deserialize(params) {
                Ok(params) => return self.call(id, params, answers),
                Err(error) => Err((INVALID_PARAMS, error.to_string())),
            },
            other => Err((METHOD_NOT_FOUND, format!("no method `{other}`"))),
        };
        let (field, content) = match result {
            Ok(result) => ("result", result),
            Err((code, message)) => ("error", json!({"code": code, "message": message})),
        };
        // A client that is gone hears nothing.
        let _ = answers.send(json!({"jsonrpc": "2.0", "id": id, field: content}));
    }

    fn call(&self, id: Value, params: Params, answers: &mpsc::UnboundedSender<Value>) {
        let (answer, answered) = oneshot::channel();
        let call = BridgeCall {
            id: params.meta.and_then(|meta| meta.claude.or(meta.codex).or(meta.hivewright)),
            name: params.name,
            args: params.arguments.unwrap_or_else(|| json!({})),
            answer,
        };
        if self.calls.send(call).is_err() {
            return;
        }
        let (answers, files) = (answers.clone(), self.files.clone());
        hivewright_actors::spawn::anywhere(async move {
            // The turn that would answer may be over.
            if let Ok(output) = answered.await {
                let content = content(&output, files.as_ref()).await;
                let result = json!({"content": content, "isError": output.fault.is_some()});
                let _ = answers.send(json!({"jsonrpc": "2.0", "id": id, "result": result}));
            }
        });
    }
}

/// A result with its pictures behind its words. One that failed may hold words alone.
async fn content(output: &ToolOutput, files: Option<&FileStore>) -> Vec<Value> {
    let encoded = match files.filter(|_| output.fault.is_none()) {
        Some(files) => pictures::of_result(files, &output.pictures).await,
        None => HashMap::new(),
    };
    let words = output.words(|file| encoded.contains_key(&file.id));
    let images = output.pictures.iter().filter_map(|file| {
        let data = encoded.get(&file.id)?;
        Some(json!({"type": "image", "data": data, "mimeType": file.mime}))
    });
    std::iter::once(json!({"type": "text", "text": words})).chain(images).collect()
}

#[derive(Debug, Deserialize)]
struct Params {
    name: String,
    arguments: Option<Value>,
    #[serde(rename = "_meta")]
    meta: Option<CallMeta>,
}

/// The model's name for a call, in the words of those agents that tell it.
#[derive(Debug, Deserialize)]
struct CallMeta {
    #[serde(rename = "claudecode/toolUseId")]
    claude: Option<String>,
    #[serde(rename = "callId")]
    codex: Option<String>,
    #[serde(rename = "hivewright/toolUseId")]
    hivewright: Option<String>,
}

fn shown(tool: &ToolSpec) -> Value {
    json!({"name": tool.name, "description": tool.description, "inputSchema": tool.schema})
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tokio::io::{AsyncBufReadExt, AsyncReadExt};

    use super::*;

    fn bridge() -> (tempfile::TempDir, PathBuf, mpsc::UnboundedReceiver<BridgeCall>) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let (calls, made) = mpsc::unbounded_channel();
        let spec = ToolSpec {
            name: "read".into(),
            description: "Reads.".into(),
            schema: json!({"type": "object"}),
        };
        let tools = Arc::new(ToolSpecs::from_iter([spec]));
        tokio::spawn(Bridge { token: "t-1".into(), tools, calls, files: None }.serve(listener));
        (folder, socket, made)
    }

    /// EN-106
    #[actix::test]
    async fn whoever_does_not_know_the_token_is_turned_away() {
        let (_folder, socket, _) = bridge();
        let mut stream = UnixStream::connect(&socket).await.unwrap();

        let asked = "{\"token\":\"t-2\"}\n{\"id\":1,\"method\":\"tools/list\"}\n";
        stream.write_all(asked.as_bytes()).await.unwrap();
        let mut answer = String::new();
        // The other end may be gone before it has read all.
        let _ = stream.read_to_string(&mut answer).await;

        assert_eq!(answer, "");
    }

    /// EN-105, EN-107
    #[actix::test]
    async fn tools_are_listed_and_a_call_waits_for_its_turn() {
        let (_folder, socket, mut made) = bridge();
        let stream = UnixStream::connect(&socket).await.unwrap();
        let (reads, mut writes) = stream.into_split();
        let mut answers = BufReader::new(reads).lines();
        let asked = [
            json!({"token": "t-1"}),
            json!({"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-03-26"}}),
            json!({"method": "notifications/initialized"}),
            json!({"id": 2, "method": "tools/list"}),
            json!({"id": 3, "method": "server/discover"}),
            json!({"id": 4, "method": "tools/call", "params": {
                "name": "read", "arguments": {"a": 1}, "_meta": {"claudecode/toolUseId": "u1"}}}),
        ];
        for line in asked {
            writes.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        }
        let call = made.recv().await.unwrap();
        let (id, name, content) = ("u1".into(), "read".into(), "text".into());
        let output = ToolOutput { id, name, content, fault: None, pictures: Vec::new() };
        call.answer.send(output).unwrap();
        let mut heard: Vec<Value> = Vec::new();
        while heard.len() < 4 {
            heard.push(serde_json::from_str(&answers.next_line().await.unwrap().unwrap()).unwrap());
        }

        assert_eq!(
            (call.id.as_deref(), &*call.name, call.args),
            (Some("u1"), "read", json!({"a": 1}))
        );
        assert_eq!(heard[0]["result"]["protocolVersion"], "2025-03-26");
        assert_eq!(heard[1]["result"]["tools"][0]["inputSchema"], json!({"type": "object"}));
        assert_eq!(heard[2]["error"]["code"], METHOD_NOT_FOUND);
        let content = json!({"content": [{"type": "text", "text": "text"}], "isError": false});
        assert_eq!(heard[3]["result"], content);
    }
}
