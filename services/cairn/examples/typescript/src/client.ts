/**
 * A connection to Cairn that outlives its server.
 *
 * Each call carries the server's token. Two rules make a client that does not notice when the server is
 * killed and started again:
 *
 * - Every call that changes something carries a `requestId`, made once. Whoever gets no answer
 *   repeats the call with the same id, and gets the answer to the first.
 * - Every watch knows the number of the last event that it has seen, and goes on after it.
 */

import { setTimeout as sleep } from "node:timers/promises";

import * as grpc from "@grpc/grpc-js";

import { orchestrator } from "./contracts.js";
import { CairnError, failureOf } from "./errors.js";
import type { Event__Output } from "./generated/cairn/event/v1/Event.js";
import { findToken } from "./tokens.js";

/** How long one attempt at a call may take. Short, because an attempt costs nothing to repeat. */
const DEADLINE = 5_000;
/**
 * How long one watch may last before it is opened again. It catches what pings do not: a server
 * that is there and says nothing.
 */
const WATCH_DEADLINE = 30_000;

const CHANNEL_OPTIONS: grpc.ChannelOptions = {
  // The tree of a run of thousands of steps is larger than the 4 MiB that gRPC takes by default.
  "grpc.max_receive_message_length": 64 << 20,
  // A peer that vanished without a word (power, network) is noticed by pings, also while a watch
  // has nothing to say.
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 5_000,
  // The channel's own pause between attempts to connect grows to two minutes if nobody says no.
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 1_000,
};

/** A method of a contract, with the types of its request and response. */
export interface Method<Request, Response> {
  readonly path: string;
  readonly requestSerialize: (request: Request) => Buffer;
  readonly responseDeserialize: (bytes: Buffer) => Response;
}

/** Waits between attempts, longer each time, and has an end. */
export class Patience {
  private end = 0;
  private pause = 0;

  constructor(private readonly limit: number) {
    this.renew();
  }

  /** There was progress: begin anew. */
  renew(): void {
    this.end = performance.now() + this.limit;
    this.pause = 50;
  }

  /** Milliseconds until it ends. */
  left(): number {
    return Math.max(this.end - performance.now(), 0);
  }

  /** Waits as the server told, else as long as it takes; throws what keeps failing. */
  async wait(error?: CairnError): Promise<void> {
    // The chance in it keeps a thousand clients from coming back in the same instant.
    const pause = error?.retryAfter ?? this.pause * (0.5 + Math.random() / 2);
    if (pause >= this.left()) {
      throw error ?? new Error(`nothing came for ${this.limit / 1000} s`);
    }
    await sleep(pause);
    this.pause = Math.min(this.pause * 2, 1_000);
  }
}

/** The public services at one address. */
export class Client {
  private readonly channel: grpc.Client;
  private readonly target: string;
  /** How many attempts at calls came to nothing. */
  repeats = 0;

  /** `patience` is in milliseconds. */
  constructor(
    address: string,
    private readonly limit: number,
  ) {
    // `cairn serve` prints its address as a URL; a channel wants host and port.
    this.target = address.replace(/^http:\/\//, "").replace(/\/$/, "");
    this.channel = new grpc.Client(this.target, grpc.credentials.createInsecure(), CHANNEL_OPTIONS);
  }

  close(): void {
    this.channel.close();
  }

  /** A fresh portion of it. */
  patience(): Patience {
    return new Patience(this.limit);
  }

  /**
   * The answer to a request, repeated until there is one or patience ends.
   *
   * Only for requests that may be repeated. That is all of Cairn's: reads change nothing, and what
   * changes something has a `requestId` or is the same the second time.
   */
  async call<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
  ): Promise<Response> {
    const patience = this.patience();
    for (;;) {
      const token = this.token();
      try {
        return await this.attempt(method, request, token, Math.min(DEADLINE, patience.left()));
      } catch (thrown) {
        const error = failureOf(thrown);
        if (!error.mayBeRepeated && !this.hasNewToken(error, token)) throw error;
        await patience.wait(error);
        this.repeats += 1;
      }
    }
  }

  /** What each call carries. A server that starts later than this program makes its token then. */
  token(): string | undefined {
    return findToken(this.target);
  }

  /** Whether a call was refused for want of a token that is there by now. */
  hasNewToken(error: CairnError, sent: string | undefined): boolean {
    return error.code === grpc.status.UNAUTHENTICATED && this.token() !== sent;
  }

  /** Opens a stream of responses, once. */
  stream<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    token: string | undefined,
    deadline: number,
  ): grpc.ClientReadableStream<Response> {
    const { path, requestSerialize, responseDeserialize } = method;
    const options = { deadline: Date.now() + deadline };
    return this.channel.makeServerStreamRequest(
      path, requestSerialize, responseDeserialize, request, metadata(token), options,
    );
  }

  private attempt<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    token: string | undefined,
    deadline: number,
  ): Promise<Response> {
    const { path, requestSerialize, responseDeserialize } = method;
    const options = { deadline: Date.now() + deadline };
    return new Promise((resolve, reject) => {
      this.channel.makeUnaryRequest(
        path, requestSerialize, responseDeserialize, request, metadata(token), options,
        // Without an error there is a response; the type does not know.
        (error, response) => (error ? reject(error) : resolve(response as Response)),
      );
    });
  }
}

/** What each call carries: the token. With no server there, wait for one instead of failing at once. */
function metadata(token: string | undefined): grpc.Metadata {
  const carried = new grpc.Metadata({ waitForReady: true });
  if (token) carried.set("authorization", `Bearer ${token}`);
  return carried;
}

/** An event with its number. */
export interface Numbered {
  readonly seq: number;
  readonly event: Event__Output;
}

/** The events of a session from a cursor on: none missed, none twice, whatever breaks. */
export class Watch {
  cuts = 0;
  losses = 0;

  /** With `cutEvery`, cuts its own line each time that many events have come. */
  constructor(
    private readonly client: Client,
    private readonly session: string,
    private cursor: number,
    private readonly cutEvery = 0,
  ) {}

  /** Events without end: the reader says when it has seen enough. */
  async *events(): AsyncGenerator<Numbered, never> {
    const patience = this.client.patience();
    for (;;) {
      let error: CairnError | undefined;
      const token = this.client.token();
      try {
        const deadline = Math.min(WATCH_DEADLINE, patience.left());
        for await (const event of this.oneStream(token, deadline)) {
          patience.renew();
          yield event;
        }
        // Ended without an error: cut by us, or the server stops, or the session is gone. Asking
        // again tells which.
      } catch (thrown) {
        error = failureOf(thrown);
        if (!error.mayBeRepeated && !this.client.hasNewToken(error, token)) throw error;
        this.losses += 1;
      }
      await patience.wait(error);
    }
  }

  private async *oneStream(
    token: string | undefined,
    deadline: number,
  ): AsyncGenerator<Numbered> {
    const request = { session: this.session, afterSeq: this.cursor };
    const stream = this.client.stream(orchestrator.WatchSession, request, token, deadline);
    // A cancelled stream still emits an error, after nobody listens any more.
    stream.on("error", () => {});
    let came = 0;
    try {
      for await (const { seq, event } of stream as AsyncIterable<Partial<Numbered>>) {
        if (!event || !seq) continue; // Only says that the stream has caught up with the journal.
        if (seq !== this.cursor + 1) throw new Error(`event ${seq} came after ${this.cursor}`);
        // The cursor moves before the event is handed out. A program that keeps results stores the
        // cursor together with them, in one transaction of its own.
        this.cursor = seq;
        yield { seq, event };
        came += 1;
        if (came === this.cutEvery) {
          this.cuts += 1;
          return;
        }
      }
    } finally {
      stream.cancel();
    }
  }
}
