"""Words of other requests, for a look-up and for thought: English. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_operator.publish.words.listed import listed

LOOKUPS: Final = listed("""
    add a comment, add a line, add a meeting, add a note, add a reminder, add a task, add an entry, add an item, add
    my notes, an order, anything about, anything in the, anything on the, appointment*, booked, booking*, bring up,
    calendar, check if, check my account, check my balance, check my email, check my emails, check my messages,
    check our stock, check the forecast, check the logs, check the price, check the status, check the stock, check
    the traffic, check the weather, check whether, compose*, contract, create a, create an, describ*, difference
    between, do we have, do you know anybody, do you know anyone, do you know anything, do you know how, do you know
    if, do you know of, do you know what, do you know when, do you know where, do you know whether, do you know why,
    draft*, explain*, fetch*, find a, find all, find an, find any, find every, find information, find me, find out,
    find similar, find some, find the, find what, find where, get me a list, get me a quote, get me a table, get me
    all, get me directions, get me information, get me the, give me all, give me the, guarantee, has they,
    headlines, how do we, how long is, how long until, how long will, how many, how to, invoice*, is my flight, is
    my package, is my parcel, is my train, is our flight, is our train, latest, list all, list my, list the, look at
    my notes, look at my portfolio, look at the data, look at the document, look at the logs, look at the numbers,
    look at the report, look at this code, look at this document, look at this report, look for, look into, look
    through, look up, lookup, make a list, meaning of, more about, my order, opening hours, order number, order
    status, orders, overview, phone number, proofread*, pull up, query*, recap*, receipt*, recipe*, recommend a,
    recommend an, recommend any, recommend me, recommend some, recommend something, recommend us, recommendation*,
    rephras*, reword*, rewrit*, rules, run the build, run the report, run the script, run the tests, schedul*,
    search all, search for, search my, search our, search the archive*, search the database, search the docs, search
    the files, search the internet, search the log*, search the notes, search the web, search through, section,
    shorten*, show me a list, show me a picture, show me all, show me every, show me how, show me my, show me our,
    show me some, show me the, show me what, show me where, status of, suggest a, suggest an, suggest how, suggest
    some, suggestion*, sum up, summar*, sums up, tell me about, tell me how, tell me if, tell me more, tell me what,
    tell me when, tell me where, tell me why, the news, the order, translat*, turn it into, turn my, turn these,
    turn this into, update the, what are people, what changed, what's in my, what's in our, what's in the document,
    what's in the file, what's in the report, what's my, what's on my, what's on our, what's on the agenda, what's
    on the list, what's on tonight, when are, when do, when is, when will, when's, where are my, where are our,
    where can you, where do, where is, where's, which, whose, write a, write an, write me, write to
""")
"""Requests for which something has to be looked up, written or summed up."""
THOROUGH: Final = listed("""
    a careful, a complete analysis, a complete breakdown, a complete guide, a complete itinerary, a complete list, a
    complete overview, a complete picture, a complete plan, a complete report, a complete review, a complete
    summary, a design document, a full account, a full analysis, a full audit, a full breakdown, a full campaign, a
    full guide, a full itinerary, a full list, a full overview, a full picture, a full plan, a full report, a full
    review, a full summary, action plan, all of our, all of the, all our, all the details, all the ways,
    alternatives, analys*, analyz*, and why, anticipat*, architect*, argue against, argue for, argue that, arguments
    against, arguments for, assess*, audit*, best approach, best way to, brainstorm*, break down, breakdown of,
    business case, careful analysis, careful comparison, careful look, cause of, causes of, come up with, compar*,
    comprehensive*, consequences of, consider all, consider every, consider the, consider whether, considering,
    contradict*, convince me, critici*, critiqu*, debug*, deduc*, deep dive, derive*, design a, design an, detailed,
    develop a, develop an, devis*, diagnos*, dig into, dig through, draw a chart, draw a diagram, draw a graph, draw
    a map, draw a picture, draw a plan, draw a portrait, draw an illustration, draw me, draw up, drivers of, each of
    the, each of these, each one of, end to end, estimat*, evaluat*, every detail, every one of, every possible,
    every scenario, every single one, everything about, everything i know, everything i need, everything i should,
    everything i wrote, everything that, everything there is, everything we know, everything you can, everything you
    found, everything you have, everything you know, evidence, examin*, exhaustive*, explain every, explain what,
    explain why, extrapolat*, figure out, find online, find out why, flaw in, flaws in, for and against, for
    anything that could, forecast*, from every, from scratch, full report, full story, generate a picture, generate
    an image, go over the whole, go through all, go through the, go through these, go wrong, help me decide, help me
    think, help me track, help me understand, how could i, how could we, how everything, how might i, how might we,
    how might you, how should i, how should they, how should you, how the whole, how would i, how would we, how
    would you, hypothes*, i need to understand, i want to understand, i would like to understand, image of,
    implications, improvements, in depth, in detail, in full, inconsistenc*, infer, inference*, inferred,
    interpret*, investigat*, justif*, lay out, line by line, long term, look online, make a case, make a picture,
    make sense of, make the case, map out, migrat*, model the, my entire, on the internet, on the web, one by one,
    optimi*, our entire, outline a, outline the, paint a, paint an, paint me, painting of, photo of, picture of,
    plan a, plan an, plan for, plan my, plan our, plan out, point by point, point out, predict*, prioriti*, proof
    of, propos*, pros and cons, prove that, put together a, rank them, rank these, reason about, reason through,
    reconcil*, redesign*, refactor*, research*, restructur*, rethink*, review properly, review*, risks, roadmap*,
    root cause, scrutini*, search online, should we, side by side, simulat*, sketch*, solve, step by step, strateg*,
    study the, study these, study this, summarize all, summarize everything, talk me through, test properly, the
    entire, the whole book, the whole chapter, the whole conversation, the whole document, the whole history, the
    whole report, the whole story, the whole system, the whole thing through, theor*, think through, thorough*,
    through all of my, trace the, trace where, trace why, track down, track it down, trade off, trade offs,
    tradeoffs, troubleshoot*, weakness*, web search, weigh my, weigh our, weigh the, weigh up, weighing, what are
    the odds, what could go, what happens if, what if we, what would happen, what would you do, where they differ,
    whether i should, whether to, whether we should, which of them would you, which of these would you, which of
    those would you, why are, why did, why do, why does, why has, why have, why is, why it, why my, why our, why
    people, why should, why that, why the, why these, why they, why this, why was, why we, why would, work out,
    write a report, write an essay, write up
""")
"""Requests for which something has to be thought through, compared, planned or debugged."""
