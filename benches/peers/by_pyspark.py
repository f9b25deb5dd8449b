"""Spark on this machine: two columns with the score by a window, and a copy of the drawn lines."""

from __future__ import annotations

from job import EPS, Job, copy_lines, draw, run
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as f


def two_columns(job: Job) -> None:
    spark = SparkSession.builder.master("local[*]").config("spark.driver.memory", "4g").getOrCreate()
    spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    rows = spark.read.schema("group string, reward double").json(job.log)
    group = Window.partitionBy("group")
    spread = f.coalesce(f.stddev_samp("reward").over(group), f.lit(0.0))
    score = (f.col("reward") - f.avg("reward").over(group)) / (spread + EPS)
    scored = rows.withColumn("place", f.monotonically_increasing_id()).withColumn("score", score)
    scores = scored.select("place", "score").toPandas().sort_values("place")["score"].to_numpy()
    spark.stop()
    copy_lines(job, draw(scores, job.k))


if __name__ == "__main__":
    run({"two-columns": two_columns})
