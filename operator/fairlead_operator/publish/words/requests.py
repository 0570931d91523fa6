"""Words of other requests, for a look-up and for thought: English. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_operator.publish.words.listed import listed

LOOKUPS: Final = listed("""
    add a meeting, add a note, add a reminder, add a task, add an appointment, add an entry, add an event, add my
    notes, anything about, anything in the, anything on the, appointment with, appointments, booked, booking*, bring
    up, check if, check my account, check my balance, check my email, check my emails, check my messages, check our
    stock, check the forecast, check the logs, check the price, check the status, check the stock, check the
    traffic, check the weather, check whether, contract, create a ticket, create an event, create an issue,
    difference between, do they, do we have, do you know anybody, do you know anyone, do you know anything, do you
    know of, do you know when, do you know where, do you know who, fetch*, find a doctor, find a flight, find a
    good, find a plumber, find a restaurant, find all, find an, find any, find every, find information, find me,
    find out, find similar, find some, find the address, find the cheapest, find the document, find the email, find
    the file, find the name, find the number*, find the photo*, find the report, find what, find where, find who,
    get me a list, get me a quote, get me a table, get me all, get me an appointment, get me directions, get me
    information, get me the, give me all, give me the details of, give me the list of, give me the numbers, give me
    the phone, give me the status, guarantee, has they, headlines, how can i, how do we, how long until, how long
    will, how much do, how much does, how much was, how much will, invoice*, is my flight, is my package, is my
    parcel, is my train, is our flight, is our train, is there a bus, is there a document, is there a flight, is
    there a inn, is there a meeting, is there a note, is there a pharmacy, is there a record, is there a restaurant,
    is there a road, is there a station, is there a town, is there a train, latest, list all, list my, list the,
    long is the, look at my notes, look at my portfolio, look at the data, look at the document, look at the logs,
    look at the numbers, look at the report, look at this code, look at this document, look at this report, look
    for, look into my, look into our, look into the, look through, look up, lookup, my appointment, my calendar, my
    order, my schedule, next appointment, opening hours, order number, order status, orders, our calendar, overview,
    phone number, pull up, query*, recap*, receipt*, recipe*, recommend a, recommend an, recommend any, recommend
    me, recommend some, recommend something, recommend us, recommendation*, recommended, rules, run the build, run
    the report, run the script, run the tests, schedule a meeting, search all, search for, search my, search our,
    search the archive*, search the database, search the docs, search the files, search the internet, search the
    log*, search the notes, search the web, search through, show me a list, show me a map, show me a picture, show
    me all, show me every, show me how, show me my, show me our, show me some, show me the emails, show me the list,
    show me the log*, show me the notes, show me the numbers, show me the open, show me the report*, show me the
    result*, show me what, show me where, show me which, status of, suggest how, summary of last, summary of our,
    summary of the meeting, tell me about, tell me more, the calendar, the news, the order, the schedule, told you,
    update the status, update the ticket, what are people, what changed, what time does, what's in my, what's in
    our, what's in the document, what's in the file, what's in the report, what's my, what's on my, what's on our,
    what's on the agenda, what's on the list, what's on tonight, when are, when do, when does, when is, when will,
    when's, where are my, where are our, where can i, where can we, where can you, where do, where is, where's our,
    where's the hidden, where's the next, where's the old, which are the, which bridge, which bus, which cards,
    which clan*, which class, which customer, which customers, which die, which doctor, which document, which
    documents, which email, which emails, which file, which files, which flight, which flights, which form, which
    forms, which god, which guild*, which has, which have, which house, which is the, which items, which king, which
    language, which languages, which month, which of my, which of our, which of the, which of your, which order,
    which player, which queen, which restaurants, which road, which roads, which rooms, which route, which ship,
    which shops, which side of the road, which spells, which stores, which team, which teams, which tickets, which
    train, which trains, which vaccinations, which version, which weapons, who is the, whose, write to, yesterday
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
    business case, careful analysis, careful comparison, careful look, cause of, causes of, come up with a budget,
    come up with a campaign, come up with a design, come up with a full, come up with a plan, come up with a
    proposal, come up with a roadmap, come up with a schedule, come up with a solution, come up with a strategy,
    come up with a training, compar*, comprehensive*, consequences of, consider all, consider every, consider the,
    consider whether, considering, contradict*, convince me, critici*, critiqu*, debug*, deduc*, deep dive, derive*,
    design a, design an, detailed, develop a, develop an, devis*, diagnos*, dig into, dig through, draw a chart,
    draw a diagram, draw a graph, draw a map, draw a picture, draw a plan, draw a portrait, draw an illustration,
    draw me, draw up, drivers of, each of the, each of these, each one of, end to end, estimat*, evaluat*, every
    detail, every one of, every possible, every scenario, every single one, everything about, everything i know,
    everything i need, everything i should, everything i wrote, everything that, everything there is, everything we
    know, everything you can, everything you found, everything you have, everything you know, evidence, examin*,
    exhaustive*, explain every, explain what, explain why, extrapolat*, figure out, find online, find out why, flaw
    in, flaws in, for and against, for anything that could, forecast*, from every, from scratch, full report, full
    story, generate a picture, generate an image, go over the whole, go through all, go through the, go through
    these, go wrong, help me decide, help me think, help me track, help me understand, how could i, how could we,
    how everything, how might i, how might we, how might you, how should i, how should they, how should you, how the
    whole, how would i, how would we, how would you, hypothes*, i need to understand, i want to understand, i would
    like to understand, image of, implications, improvements, in depth, in detail, in full, inconsistenc*, infer,
    inference*, inferred, interpret*, investigat*, justif*, lay out, line by line, long term, look online, make a
    case, make a picture, make sense of, make the case, map out, migrat*, model the, my entire, on the internet, on
    the web, one by one, optimal, optimisation, optimise, optimization, optimize, our entire, outline a, outline
    the, paint a, paint an, paint me, painting of, photo of, picture of, plan a, plan an, plan for, plan my, plan
    our, plan out, point by point, point out, predict*, prioriti*, proof of, propos*, pros and cons, prove that, put
    together a, rank them, rank these, reason about, reason through, reconcil*, redesign*, refactor*, research*,
    restructur*, rethink*, review properly, review*, risks, roadmap*, root cause, scrutini*, search online, should
    we, side by side, simulat*, sketch*, solve, step by step, strateg*, study the, study these, study this,
    summarize all, summarize everything, talk me through, test properly, the entire, the whole book, the whole
    chapter, the whole conversation, the whole document, the whole history, the whole report, the whole story, the
    whole system, the whole thing through, theor*, think through, thorough*, through all of my, trace the, trace
    where, trace why, track down, track it down, trade off, trade offs, tradeoffs, troubleshoot*, weakness*, web
    search, weigh my, weigh our, weigh the, weigh up, weighing, what are the odds, what could go, what happens if,
    what if we, what would happen, what would you do about, what would you do in, where they differ, whether i
    should, whether to, whether we should, which of them would you, which of these would you, which of those would
    you, why are, why did, why do, why does, why has, why have, why is, why it, why my, why our, why people, why
    should, why that, why the, why these, why they, why this, why was, why we, why would, work out a, work out how,
    work out the, work out what, work out whether, work out which, work out why, write a report, write an essay,
    write up
""")
"""Requests for which something has to be thought through, compared, planned or debugged."""
