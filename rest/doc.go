// Package rest speaks the part of Flink's REST interface that is about jobs and their checkpoints and savepoints: a client, and the answers as Flink 1.20 and 2.x send them.
package rest
