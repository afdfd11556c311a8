// A proxy that spoils answers of the server behind it, each in the way that it is told to:
//   node faults.mjs PORT SERVER [FAULT@N]...
// N counts the requests from 1; with port 0 any free one is taken. The port is printed once it is open.
import { createServer } from "node:http";

const [port, server, ...orders] = process.argv.slice(2);
const faults = new Map(orders.map((order) => order.split("@").reverse()));
const own = ["host", "connection", "content-length", "transfer-encoding", "accept-encoding"];
let count = 0;

// The event in the middle loses its end; in a whole answer, something gets in between.
const spoil = (body, streamed) => {
  if (!streamed) return body.slice(0, body.length / 2) + "\u0001<<<" + body.slice(body.length / 2);
  const events = body.split("\n\n");
  const middle = Math.floor(events.length / 2);
  events[middle] = events[middle].slice(0, events[middle].length - 8);
  return events.join("\n\n");
};

const answer = async (request, response) => {
  const fault = faults.get(String(++count));
  const sent = [];
  for await (const piece of request) sent.push(piece);
  if (fault === "silent") return;
  if (fault === "gone") return request.socket.destroy();
  const headers = Object.fromEntries(Object.entries(request.headers).filter(([name]) => !own.includes(name)));
  const real = await fetch(server + request.url, { method: request.method, headers, body: Buffer.concat(sent) });
  const type = real.headers.get("content-type") ?? "";
  const body = await real.text();
  const send = (kind, text) => response.writeHead(real.status, { "content-type": kind }).write(text);
  const half = body.slice(0, body.length / 2);
  if (fault === "senseless") send("application/json", '{"ok": true}');
  else if (fault === "page") send("text/html", "<html><body><h1>Please log in</h1></body></html>");
  else if (fault === "spoiled") send(type, spoil(body, type.includes("event-stream")));
  else send(type, fault ? half : body);
  // "short" ends as if that were all, "stalled" does not end, "cut" breaks off.
  if (fault === "cut") return setTimeout(() => request.socket.destroy(), 50);
  if (fault !== "stalled") response.end();
};

const proxy = createServer((request, response) => void answer(request, response).catch(() => response.destroy()));
proxy.listen(Number(port), "127.0.0.1", () => console.log(proxy.address().port));
